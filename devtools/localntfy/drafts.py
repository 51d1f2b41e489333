"""Reads what is published: as JSON, or as a body with headers or query parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.header import decode_header, make_header

from devtools.localntfy.actions import actions_of_header, checked_actions
from devtools.localntfy.protocol import (
    Json,
    attachment_too_large,
    attachments_disallowed,
    delay_invalid,
    json_too_large,
    not_message_json,
    not_utf8,
    priority_invalid,
    require_sequence,
    require_topic,
)

# In bytes.
LONGEST_MESSAGE = 4096
_LONGEST_JSON = 2 * LONGEST_MESSAGE
_LARGEST_ATTACHMENT = 15 * 1024 * 1024
_EMPTY = "triggered"
_PRIORITIES = {"min": 1, "low": 2, "default": 3, "high": 4, "max": 5, "urgent": 5}
_NO = ("0", "no", "false")
_YES = ("1", "yes", "true")
# The names of each parameter in headers and in the query, without a leading `x-`.
_NAMES: Mapping[str, Sequence[str]] = {
    "message": ("message", "m"),
    "title": ("title", "t", "ti"),
    "tags": ("tags", "tag", "ta"),
    "priority": ("priority", "prio", "p"),
    "actions": ("actions", "action"),
    "click": ("click",),
    "icon": ("icon",),
    "attach": ("attach", "a"),
    "filename": ("filename", "file", "f"),
    "markdown": ("markdown", "md"),
    "delay": ("delay", "at", "in"),
    "cache": ("cache",),
    "sequence_id": ("sequence-id", "sequence_id", "sid"),
}


@dataclass(frozen=True, slots=True)
class Draft:
    """A message to publish. `is_kept` is false if the server shall not store it."""

    topic: str
    text: str
    sequence_id: str = ""
    is_kept: bool = True
    details: Json = field(default_factory=dict)


class DraftReader:
    """`takes_attachments` turns too long messages into files, as the public server does."""

    def __init__(self, *, knows_sequences: bool, takes_attachments: bool) -> None:
        self._knows_sequences = knows_sequences
        self._takes_attachments = takes_attachments

    def from_json(self, body: bytes, headers: Mapping[str, str]) -> Draft:
        """Only the topic has to be there; unknown fields are ignored."""
        if len(body) > _LONGEST_JSON:
            raise json_too_large()
        try:
            given = json.loads(body)
        except ValueError:
            raise not_message_json() from None
        if not isinstance(given, dict) or not isinstance(given.get("topic"), str):
            raise not_message_json()
        fields: Json = {name: given[name] for name in _NAMES if given.get(name)}
        if not all(isinstance(each, _TYPES.get(name, str)) for name, each in fields.items()):
            raise not_message_json()
        fields.setdefault("cache", _parameter("cache", headers, {}))
        text = str(fields.pop("message", ""))
        return self._draft(require_topic(given["topic"]), text.encode(), fields)

    def from_body(
        self,
        topic: str,
        body: bytes,
        headers: Mapping[str, str],
        query: Mapping[str, str],
        sequence_id: str = "",
    ) -> Draft:
        fields: Json = {name: _parameter(name, headers, query) for name in _NAMES}
        text = fields.pop("message").replace("\\n", "\n")
        if tags := fields["tags"]:
            fields["tags"] = [each.strip() for each in tags.split(",")]
        if actions := fields["actions"]:
            fields["actions"] = actions_of_header(actions)
        if sequence_id:
            fields["sequence_id"] = sequence_id
        return self._draft(require_topic(topic), body or text.encode(), fields)

    def _draft(self, topic: str, body: bytes, fields: Json) -> Draft:
        if fields.pop("delay", ""):
            raise delay_invalid()
        is_kept = str(fields.pop("cache", "")).lower() not in _NO
        sequence = fields.pop("sequence_id", "") if self._knows_sequences else ""
        if sequence:
            require_sequence(sequence)
        details = _details(fields)
        if len(body) > LONGEST_MESSAGE:
            text, details["attachment"] = self._attachment(body, fields)
        else:
            text = _decoded(body)
        return Draft(topic, text or _EMPTY, sequence, is_kept, details)

    def _attachment(self, body: bytes, fields: Json) -> tuple[str, Json]:
        if not self._takes_attachments:
            raise attachments_disallowed()
        if len(body) > _LARGEST_ATTACHMENT:
            raise attachment_too_large()
        name = fields.get("filename") or "attachment.txt"
        return f"You received a file: {name}", {"name": name, "size": len(body)}


_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "tags": list,
    "priority": int,
    "actions": list,
    "markdown": bool,
}


def _details(fields: Json) -> Json:
    details: Json = {name: fields[name] for name in ("title", "tags") if fields.get(name)}
    if priority := fields.get("priority"):
        details["priority"] = _priority(priority)
    details |= {name: fields[name] for name in ("click", "icon") if fields.get(name)}
    if actions := fields.get("actions"):
        details["actions"] = checked_actions(actions)
    if url := fields.get("attach"):
        name = fields.get("filename") or url.rpartition("/")[2]
        details["attachment"] = {"name": name, "url": url}
    if str(fields.get("markdown", "")).lower() in _YES:
        details["content_type"] = "text/markdown"
    return details


def _priority(given: str | int) -> int:
    number = _PRIORITIES.get(str(given).lower(), given)
    if str(number) not in ("1", "2", "3", "4", "5"):
        raise priority_invalid()
    return int(number)


def _parameter(name: str, headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    for alias in _NAMES[name]:
        for spelled in (f"x-{alias}", alias):
            if value := headers.get(spelled):
                return _header_text(value)
    given = {key.lower(): value for key, value in query.items()}
    for alias in _NAMES[name]:
        if value := given.get(alias) or given.get(f"x-{alias}"):
            return value
    return ""


def _header_text(value: str) -> str:
    """Headers are UTF-8, or encoded words of RFC 2047."""
    return str(make_header(decode_header(value))).strip()


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise not_utf8() from None
