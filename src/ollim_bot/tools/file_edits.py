"""What a file would hold after a call of `Write` or `Edit`, as the engine makes it."""

from __future__ import annotations

from collections.abc import Mapping


class UnclearEdit(Exception):
    """It cannot be foreseen what the call would write; `str()` says what to do instead."""


_OTHER_FORM = (
    "These arguments are not those of the tool. Give them as texts, and `replace_all` as is."
)
_NOT_EXACT = "`old_string` must stand in {file} exactly so, to the letter. Read it and copy it."
_NOT_ONCE = "`old_string` stands in {file} {times} times. Make it longer, or set `replace_all`."
_NO_FILE = "{file} is not there yet. Use `Write`."


def written(file: str, before: str | None, tool: str, arguments: Mapping[str, object]) -> str:
    """Raises `UnclearEdit`. `file` is how it is called in what is said."""
    if tool == "Write":
        return _text(arguments, "content")
    edits = arguments.get("edits") if tool == "MultiEdit" else [arguments]
    if not isinstance(edits, list) or not edits:
        raise UnclearEdit(_OTHER_FORM)
    text = before
    for edit in edits:
        if not isinstance(edit, Mapping):
            raise UnclearEdit(_OTHER_FORM)
        text = _edited(file, text, edit)
    assert text is not None
    return text


def _edited(file: str, before: str | None, edit: Mapping[str, object]) -> str:
    old, new = _text(edit, "old_string"), _text(edit, "new_string")
    replaces_all = edit.get("replace_all", False)
    if not isinstance(replaces_all, bool):
        raise UnclearEdit(_OTHER_FORM)
    if not old and not (before or "").strip():
        return new
    if before is None:
        raise UnclearEdit(_NO_FILE.format(file=file))
    # The engine reads all lines as ending alike, and leaves out the mark of the encoding.
    text = before.removeprefix("\ufeff").replace("\r\n", "\n")
    times = text.count(old) if old else 0
    if not times:
        # Not left to the engine, which then tries what looks alike: other quotes, for one.
        raise UnclearEdit(_NOT_EXACT.format(file=file))
    if times > 1 and not replaces_all:
        raise UnclearEdit(_NOT_ONCE.format(file=file, times=times))
    # With nothing in its place, the engine takes away the end of the line too.
    takes_line_end = not new and not old.endswith("\n") and f"{old}\n" in text
    return text.replace(f"{old}\n" if takes_line_end else old, new, -1 if replaces_all else 1)


def _text(arguments: Mapping[str, object], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise UnclearEdit(_OTHER_FORM)
    return value
