"""Reads what is published as JSON, or as a plain text to a topic, and refuses what ntfy refuses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from devtools.localntfy.protocol import (
    Json,
    actions_invalid,
    attachment_too_large,
    attachments_disallowed,
    json_too_large,
    new_id,
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
_MOST_ACTIONS = 3
# The fields that a button of each kind may have.
_KINDS: Mapping[object, Sequence[str]] = {
    "view": ("url",),
    "http": ("url", "method", "headers", "body"),
}
_TYPES: Mapping[str, type] = {
    "message": str,
    "title": str,
    "tags": list,
    "priority": int,
    "actions": list,
    "click": str,
    "sequence_id": str,
}


@dataclass(frozen=True, slots=True)
class Draft:
    """A message to publish."""

    topic: str
    text: str
    sequence_id: str = ""
    details: Json = field(default_factory=dict)


class DraftReader:
    """`takes_attachments` turns too long messages into files, as the public server does."""

    def __init__(self, *, knows_sequences: bool, takes_attachments: bool) -> None:
        self._knows_sequences = knows_sequences
        self._takes_attachments = takes_attachments

    def from_json(self, body: bytes) -> Draft:
        """Only the topic has to be there; unknown fields are ignored."""
        if len(body) > _LONGEST_JSON:
            raise json_too_large()
        try:
            given = json.loads(body)
        except ValueError:
            raise not_message_json() from None
        if not isinstance(given, dict) or not isinstance(given.get("topic"), str):
            raise not_message_json()
        fields: Json = {name: given[name] for name in _TYPES if given.get(name)}
        if not all(isinstance(each, _TYPES[name]) for name, each in fields.items()):
            raise not_message_json()
        text = fields.pop("message", "").encode()
        sequence = fields.pop("sequence_id", "")
        if sequence and self._knows_sequences:
            require_sequence(sequence)
        if fields.get("priority", 3) not in range(1, 6):
            raise priority_invalid()
        if "actions" in fields:
            fields["actions"] = _checked_actions(fields["actions"])
        return self._draft(given["topic"], text, sequence * self._knows_sequences, fields)

    def from_body(self, topic: str, body: bytes) -> Draft:
        return self._draft(topic, body, "", {})

    def _draft(self, topic: str, body: bytes, sequence: str, details: Json) -> Draft:
        require_topic(topic)
        if len(body) <= LONGEST_MESSAGE:
            return Draft(topic, _decoded(body) or _EMPTY, sequence, details)
        if not self._takes_attachments:
            raise attachments_disallowed()
        if len(body) > _LARGEST_ATTACHMENT:
            raise attachment_too_large()
        name = "attachment.txt"
        details["attachment"] = {"name": name, "size": len(body)}
        return Draft(topic, f"You received a file: {name}", sequence, details)


def _checked_actions(given: Sequence[object]) -> list[Json]:
    """The buttons as subscribers get them."""
    if len(given) > _MOST_ACTIONS:
        raise actions_invalid("only 3 actions allowed")
    return [_checked(each) for each in given]


def _checked(given: object) -> Json:
    if not isinstance(given, dict) or (kind := given.get("action")) not in _KINDS:
        raise actions_invalid("parameter 'action' cannot be anything but view, broadcast or http")
    for name in ("label", "url"):
        if not given.get(name):
            raise actions_invalid(f"parameter '{name}' is required")
    shown: Json = {"id": new_id()[:10], "action": kind, "label": str(given["label"])}
    shown["clear"] = given.get("clear") is True
    return shown | {name: given[name] for name in _KINDS[kind] if given.get(name)}


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise not_utf8() from None
