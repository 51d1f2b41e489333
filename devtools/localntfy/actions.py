"""The buttons of a notification, as JSON and in the short form of the header."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from devtools.localntfy.protocol import Json, actions_invalid, new_id

_MOST = 3
_KINDS = ("view", "broadcast", "http")
_METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS")
_PLACES = ("action", "label", "url")
_QUOTES = "\"'"
# In the short form, what follows the dot is a key of the map.
_MAPS = ("headers", "extras")


def checked_actions(given: Sequence[object]) -> list[Json]:
    """The buttons as subscribers get them; refuses what ntfy refuses."""
    if len(given) > _MOST:
        raise actions_invalid("only 3 actions allowed")
    return [_checked(each) for each in given]


def actions_of_header(value: str) -> list[Json]:
    """`http, Done, https://…, body=…; view, …`, or a JSON array."""
    if value.startswith("["):
        try:
            given = json.loads(value)
        except ValueError:
            raise actions_invalid("JSON error") from None
        return list(given)
    return [_short(list(parts)) for parts in _split(value)]


def _checked(given: object) -> Json:
    if not isinstance(given, dict) or (kind := given.get("action")) not in _KINDS:
        raise actions_invalid("parameter 'action' cannot be anything but view, broadcast or http")
    if not given.get("label"):
        raise actions_invalid("parameter 'label' is required")
    if kind != "broadcast" and not given.get("url"):
        raise actions_invalid(f"parameter 'url' is required for action '{kind}'")
    shown: Json = {"id": new_id()[:10], "action": kind, "label": str(given["label"])}
    shown["clear"] = given.get("clear") in (True, "true", "yes", "1")
    names = {"view": ("url",), "broadcast": ("intent", "extras")}.get(
        kind, ("url", "method", "headers", "body")
    )
    shown |= {name: given[name] for name in names if given.get(name)}
    method = str(shown.get("method", "POST")).upper()
    if method not in _METHODS or (method in ("GET", "HEAD") and shown.get("body")):
        raise actions_invalid(f"parameter 'body' or 'method' cannot be used: {method}")
    return shown


def _short(parts: list[tuple[str, str]]) -> Json:
    """The first three may be given without a name, by their place."""
    action: Json = {}
    for place, (name, value) in enumerate(parts):
        if not name:
            if place >= len(_PLACES):
                raise actions_invalid(f"term '{value}' unknown")
            name = _PLACES[place]
        group, _, key = name.partition(".")
        if key and group in _MAPS:
            action.setdefault(group, {})[key] = value
        else:
            action[name] = value
    return action


def _split(value: str) -> Iterator[list[tuple[str, str]]]:
    """The terms of each action, with their names; a quoted term may have commas and semicolons."""
    parts: list[tuple[str, str]] = []
    at = 0
    while at < len(value):
        name, start = _name_at(value, at)
        text, at = _term_at(value, start)
        if name or text:
            parts.append((name, text))
        if (at >= len(value) or value[at] == ";") and parts:
            yield parts
            parts = []
        at += 1


def _name_at(value: str, at: int) -> tuple[str, int]:
    """The name before a `=`, and where its text begins."""
    start = at + len(value[at:]) - len(value[at:].lstrip())
    name, sign, _ = value[start:].partition("=")
    is_name = bool(sign) and name.replace(".", "").replace("-", "").replace("_", "").isalnum()
    return (name, start + len(name) + 1) if is_name else ("", start)


def _term_at(value: str, start: int) -> tuple[str, int]:
    """The text, and where the comma or semicolon behind it is."""
    if value[start : start + 1] and value[start] in _QUOTES:
        end = value.find(value[start], start + 1)
        if end < 0:
            raise actions_invalid("unexpected end of input, quote started")
        behind = _end_at(value, end + 1)
        if value[end + 1 : behind].strip():
            raise actions_invalid(f"unexpected character behind the quote at {end + 1}")
        return value[start + 1 : end], behind
    end = _end_at(value, start)
    return value[start:end].strip(), end


def _end_at(value: str, start: int) -> int:
    ends = [at for sign in ",;" if (at := value.find(sign, start)) >= 0]
    return min(ends, default=len(value))
