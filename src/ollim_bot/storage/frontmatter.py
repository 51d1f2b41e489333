"""Documents with YAML frontmatter: strict reading, and edits that change one field and no more.

`---` alone on the first line, YAML, `---` alone on a line, body. YAML is read by the rules of its
version 1.2 (`no`, `on` and `8:30` are text), without aliases, tags or doubled keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from ollim_bot.storage.yaml_text import inline

_OPENING = re.compile(r"\ufeff?---[ \t]*\r?\n")
_CLOSING = re.compile(r"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)


class BadDocument(Exception):
    """`line` counts from 1 in the whole file; None where the whole file is meant."""

    def __init__(self, line: int | None, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


class CannotEdit(Exception):
    """The field cannot be changed without touching anything else."""


@dataclass(frozen=True, slots=True)
class Field:
    """`value` is made of plain Python values; `text` is a scalar as it was written."""

    value: object
    line: int
    text: str | None


@dataclass(frozen=True, slots=True)
class Document:
    """Keys are hyphenated, however they were written; `body` is stripped."""

    fields: Mapping[str, Field]
    body: str


def parse(text: str) -> Document:
    """Raises `BadDocument` when the whole cannot be read."""
    head, head_end, body_start = _split(text)
    fields: dict[str, Field] = {}
    seen: set[int] = set()
    for key, value in _compose(text[head:head_end]):
        name = _key(key).replace("_", "-")
        line = _line(key)
        if name in fields:
            raise BadDocument(line, f"{name} stands here and in line {fields[name].line}")
        written = value.value if isinstance(value, yaml.ScalarNode) else None
        fields[name] = Field(_plain(value, seen), line, written)
    return Document(fields, text[body_start:].strip())


def render(fields: Mapping[str, object], body: str) -> str:
    """A new document; fields stand in the order given."""
    lines = [f"{key}: {inline(value)}\n" for key, value in fields.items()]
    return f"---\n{''.join(lines)}---\n{body}\n"


def edited(text: str, changes: Mapping[str, object], body: str | None = None) -> str:
    """`text` with some fields changed (None takes one away) and, if given, another body.

    Every other character stays as it is. Raises `CannotEdit` where that is not possible, and
    `BadDocument` where `text` is no document at all.
    """
    for key, value in changes.items():
        text = _with_field(text, key, value)
    if body is not None:
        text = _with_body(text, body)
    return text


def _split(text: str) -> tuple[int, int, int]:
    """Where the YAML begins and ends, and where the body begins."""
    opening = _OPENING.match(text)
    if opening is None:
        raise BadDocument(1, "the first line must be --- alone")
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        raise BadDocument(1, "the --- that ends the fields is missing")
    return opening.end(), closing.start(), closing.end()


class _StrictLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML 1.2's few implicit types instead of 1.1's many."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own way


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
):
    _StrictLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first)
    )

_LONGEST_HEAD = 65536
_DEEPEST = 50

_Pair = tuple[yaml.Node, yaml.Node]


def _compose(head: str) -> list[_Pair]:
    try:
        _refuse_depth(head)
        node = yaml.compose(head, Loader=_StrictLoader)
    except yaml.MarkedYAMLError as error:
        raise _explained(error, head) from None
    except yaml.YAMLError as error:
        raise BadDocument(1, f"the fields are not YAML: {error}") from None
    if node is None:
        return []
    if not isinstance(node, yaml.MappingNode):
        raise BadDocument(_line(node), "the fields must be lines such as `id: a1b2c3d4`")
    return list(node.value)


def _refuse_depth(head: str) -> None:
    """Refuse what is nested so deeply that composing it would overflow the C stack."""
    if len(head) > _LONGEST_HEAD:
        raise BadDocument(1, f"the fields are longer than {_LONGEST_HEAD} characters")
    if sum(map(head.count, ("[", "{", "- ", "? "))) <= _DEEPEST:
        return
    depth = 0
    for event in yaml.parse(head, Loader=_StrictLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise BadDocument(int(event.start_mark.line) + 2, "nested too deeply")


def _explained(error: yaml.MarkedYAMLError, head: str) -> BadDocument:
    """The parser's complaint in words that help a person."""
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
    return BadDocument(at + 2, reason)


def _line(node: yaml.Node) -> int:
    # The opening line of the document is not part of the YAML.
    return int(node.start_mark.line) + 2


def _key(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise BadDocument(_line(node), "a field's name must be a word")
    return str(node.value)


def _plain(node: yaml.Node, seen: set[int]) -> object:
    if id(node) in seen:
        raise BadDocument(_line(node), "anchors and aliases (& and *) are not used here")
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
        return [_plain(item, seen) for item in node.value]
    if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
        return _plain_mapping(node, seen)
    return _scalar(node)


def _plain_mapping(node: yaml.MappingNode, seen: set[int]) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, value in node.value:
        if _key(key) in values:
            raise BadDocument(_line(key), f"{_key(key)} stands twice")
        values[_key(key)] = _plain(value, seen)
    return values


def _scalar(node: yaml.Node) -> object:
    text = str(node.value)
    match node.tag.removeprefix("tag:yaml.org,2002:"):
        case "str":
            return text
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return _whole(text, node)
        case "float":
            return float(text)
    raise BadDocument(_line(node), f"tags such as {node.tag} are not used here")


def _whole(text: str, node: yaml.Node) -> int:
    if len(text) > 30:
        raise BadDocument(_line(node), "a number is too long")
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


def _with_field(text: str, key: str, value: object) -> str:
    head, head_end, _ = _split(text)
    pair = _find(text[head:head_end], key)
    if pair is None:
        result = text if value is None else _inserted(text, head_end, f"{key}: {inline(value)}")
    elif value is None:
        result = _removed(text, head, pair)
    else:
        result = _replaced(text, head, pair, inline(value))
    _check_edit(text, result, key, value)
    return result


def _find(head: str, key: str) -> _Pair | None:
    for key_node, value_node in _compose(head):
        if _key(key_node).replace("_", "-") == key:
            return key_node, value_node
    return None


def _inserted(text: str, head_end: int, line: str) -> str:
    return f"{text[:head_end]}{line}{_newline(text)}{text[head_end:]}"


def _replaced(text: str, head: int, pair: _Pair, written: str) -> str:
    start, end = _extent(text, head, pair[1])
    space = "" if text[start - 1 : start].isspace() else " "
    return f"{text[:start]}{space}{written}{text[end:]}"


def _removed(text: str, head: int, pair: _Pair) -> str:
    line_start = text.rfind("\n", 0, head + pair[0].start_mark.index) + 1
    _, end = _extent(text, head, pair[1])
    return text[:line_start] + text[text.index("\n", end) + 1 :]


def _extent(text: str, head: int, node: yaml.Node) -> tuple[int, int]:
    """Where the value's own text begins and ends; a block's marks also span what follows it."""
    start = head + int(node.start_mark.index)
    last = node
    while isinstance(last, yaml.CollectionNode) and last.value and not last.flow_style:
        last = last.value[-1][1] if isinstance(last, yaml.MappingNode) else last.value[-1]
    end = head + int(last.end_mark.index)
    return start, start + len(text[start:end].rstrip())


def _check_edit(before: str, after: str, key: str, value: object) -> None:
    """The editor reads its own result: exactly this key changed, or nothing is written."""
    try:
        was, now = parse(before), parse(after)
    except BadDocument as error:
        raise CannotEdit(f"{key} cannot be changed here ({error.reason})") from None
    expected = {name: field.value for name, field in was.fields.items()}
    expected.pop(key, None)
    if value is not None:
        expected[key] = value
    found = {name: field.value for name, field in now.fields.items()}
    if found != expected or was.body != now.body:
        raise CannotEdit(f"{key} cannot be changed here without changing more")


def _with_body(text: str, body: str) -> str:
    _, _, body_start = _split(text)
    newline = _newline(text)
    head = text[:body_start]
    return f"{head if head.endswith(chr(10)) else head + newline}{body}{newline}"


def _newline(text: str) -> str:
    return "\r\n" if text[: text.index("\n")].endswith("\r") else "\n"
