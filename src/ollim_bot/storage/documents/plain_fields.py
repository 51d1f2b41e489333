"""Fields that need no YAML library: the plain lines that nearly all job files consist of.

Loading the library and running it takes longer than everything else that a listing does. What is
not obviously plain is left to it: this reader gives the library's answer or none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ollim_bot.storage.documents.document import FIRST_LINE, Field, field_name
from ollim_bot.storage.documents.yaml_values import implicit_type, scalar

_LINE = re.compile(
    r"""(?P<key>[a-z][a-z0-9_-]*):[ ]+
        (?: "(?P<quoted>[\w !#$%&'()*+,./:;<=>?@^`{|}~\[\]-]*)"
          | (?P<bare>[^\W_](?:[\w./()'+*,;=@-]|:(?=\S)|[ ]+(?=[\w./()'+*,;=@-]))*)
        )[ ]*""",
    re.VERBOSE,
)
_IGNORED = re.compile(r"[ ]*(?:#[\w !\"#$%&'()*+,./:;<=>?@^`{|}~\[\]-]*)?")
_LONGEST = 500


def plain_fields(head: str) -> Mapping[str, Field] | None:
    """The fields by their hyphenated names; None where the YAML library must be asked."""
    fields: dict[str, Field] = {}
    for number, line in enumerate(head.split("\n"), FIRST_LINE):
        if not line:
            continue
        found = _LINE.fullmatch(line.removesuffix("\r"))
        if found is None:
            if _IGNORED.fullmatch(line.removesuffix("\r")):
                continue
            return None
        key, quoted, bare = found.groups()
        name = field_name(key)
        value = _value(quoted, bare, number)
        if value is None or name in fields:
            return None
        fields[name] = value
    return fields


def _value(quoted: str | None, bare: str | None, line: int) -> Field | None:
    text = quoted if bare is None else bare
    if text is None or len(text) > _LONGEST:
        return None
    kind = "str" if bare is None else implicit_type(bare)
    try:
        return Field(scalar(kind, text), line, text)
    except ValueError:
        return None
