"""Reads the fields in YAML that the plain reader cannot read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import yaml

from ollim_bot.kernel.store.document import (
    FIRST_LINE,
    IMPLICIT_TYPES,
    BadDocument,
    Field,
    field_name,
    scalar,
)

_LONGEST = 65536
_DEEPEST = 50
_TAG = "tag:yaml.org,2002:"


class _StrictLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Resolves only the few implicit types of YAML 1.2, not the many of 1.1."""

    yaml_implicit_resolvers: dict[str | None, Any] = {  # noqa: RUF012 - PyYAML's own way
        None: [(_TAG + kind, re.compile(rf"(?:{form})\Z")) for kind, form in IMPLICIT_TYPES]
    }


class FieldSpan(NamedTuple):
    """The place of a field in the text: its key, and the text of its value."""

    key_start: int
    value_start: int
    value_end: int


def yaml_fields(head: str) -> Mapping[str, Field]:
    """The fields by name. Raises `BadDocument`."""
    fields: dict[str, Field] = {}
    seen: set[int] = set()
    for key, value in _compose(head):
        name, line = field_name(_key(key)), _line(key)
        if name in fields:
            raise BadDocument(line, f"{name} stands here and in line {fields[name].line}")
        text = str(value.value) if isinstance(value, yaml.ScalarNode) else None
        fields[name] = Field(_plain(value, seen), line, text)
    return fields


def yaml_place(head: str, name: str) -> FieldSpan | None:
    """The place of the field in `head`; None if there is no such field."""
    for key, value in _compose(head):
        if field_name(_key(key)) == name:
            # Without the comments behind it, which the marks of a block include.
            last = value
            while isinstance(last, yaml.CollectionNode) and last.value and not last.flow_style:
                last = last.value[-1][1] if isinstance(last, yaml.MappingNode) else last.value[-1]
            start = int(value.start_mark.index)
            end = start + len(head[start : int(last.end_mark.index)].rstrip())
            return FieldSpan(int(key.start_mark.index), start, end)
    return None


def _compose(head: str) -> list[tuple[yaml.Node, yaml.Node]]:
    try:
        _refuse_depth(head)
        node = yaml.compose(head, Loader=_StrictLoader)
    except yaml.MarkedYAMLError as error:
        raise _explained(error, head) from None
    except yaml.reader.ReaderError as error:
        line = head.encode("utf-8", "replace").count(b"\n", 0, error.position) + FIRST_LINE
        raise BadDocument(line, f"{chr(error.character)!a} is not allowed in the fields") from None
    if node is None:
        return []
    if not isinstance(node, yaml.MappingNode):
        raise BadDocument(_line(node), "the fields must be lines such as `id: a1b2c3d4`")
    return list(node.value)


def _refuse_depth(head: str) -> None:
    """Refuse nesting so deep that composing it would overflow the C stack."""
    if len(head) > _LONGEST:
        raise BadDocument(None, f"the fields are longer than {_LONGEST} characters")
    if sum(map(head.count, ("[", "{", "- ", "? "))) <= _DEEPEST:
        return
    depth = 0
    for event in yaml.parse(head, Loader=_StrictLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise BadDocument(int(event.start_mark.line) + FIRST_LINE, "nested too deeply")


def _explained(error: yaml.MarkedYAMLError, head: str) -> BadDocument:
    """Explain the parser's error to a person."""
    mark = error.problem_mark or error.context_mark
    at = mark.line if mark is not None else 0
    lines = head.splitlines()
    written = lines[at].strip() if at < len(lines) else ""
    if re.search(r":\s+[*&!%@`]", written):
        key = written.partition(":")[0]
        reason = f'put quotes round the value of {key}, for example {key}: "*/5 * * * *"'
    elif "mapping values are not allowed" in str(error.problem):
        reason = 'a value that contains a colon needs quotes: description: "Plan: the day"'
    elif "\t" in written or "'\\t'" in str(error.problem):
        reason = "a tab stands where YAML wants spaces"
    else:
        reason = f"the fields are not YAML: {error.problem}"
    return BadDocument(at + FIRST_LINE, reason)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + FIRST_LINE


def _key(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise BadDocument(_line(node), "a field's name must be a word")
    return str(node.value)


def _plain(node: yaml.Node, seen: set[int]) -> object:
    """The plain value; `seen` has the nodes so far, and a node found twice has an alias."""
    if id(node) in seen:
        raise BadDocument(_line(node), "anchors and aliases (& and *) are not used here")
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
        return [_plain(item, seen) for item in node.value]
    if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
        values: dict[str, object] = {}
        for key, value in node.value:
            if _key(key) in values:
                raise BadDocument(_line(key), f"{_key(key)} stands twice")
            values[_key(key)] = _plain(value, seen)
        return values
    try:
        return scalar(node.tag.removeprefix(_TAG), str(node.value))
    except KeyError:
        raise BadDocument(_line(node), f"tags such as {node.tag} are not used here") from None
    except ValueError as error:
        raise BadDocument(_line(node), str(error)) from None
