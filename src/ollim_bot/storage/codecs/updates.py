"""How pending updates stand in their file, and in the rows that claim them."""

from __future__ import annotations

import re

from ollim_bot.domain.updates import PendingUpdate, PendingUpdates, omission_notice
from ollim_bot.storage.json_fields import Fields, parse_json, render_json, versioned_list

_OMISSION = re.compile(r"\(([0-9]{1,9}) earlier update\(s\) omitted — cap reached\)")


class PendingUpdatesCodec:
    """A list of `{ts, message, id}`; the notice of omitted ones stands first and has no id."""

    def missing(self) -> PendingUpdates:
        return PendingUpdates()

    def decode(self, raw: bytes) -> tuple[PendingUpdates, tuple[str, ...]]:
        return updates_of(versioned_list(parse_json(raw))), ()

    def encode(self, value: PendingUpdates) -> bytes | None:
        entries = updates_json(value)
        return render_json(entries, indent=1) if entries else None


def updates_of(values: list[object]) -> PendingUpdates:
    entries = tuple(_pending_update(value) for value in values)
    notice = _OMISSION.fullmatch(entries[0].message) if len(entries) > 1 else None
    if notice is None or entries[0].id is not None:
        return PendingUpdates(entries)
    since = Fields(values[0]).text_or_none("since")
    return PendingUpdates(entries[1:], int(notice[1]), since)


def updates_json(value: PendingUpdates) -> list[object]:
    entries: list[object] = [_pending_update_json(entry) for entry in value.entries]
    if value.omitted:
        ts, message = value.entries[0].ts.isoformat(), omission_notice(value.omitted)
        entries.insert(0, {"ts": ts, "message": message, "since": value.since})
    return entries


def _pending_update(value: object) -> PendingUpdate:
    fields = Fields(value, "an update")
    return PendingUpdate(fields.moment("ts"), fields.text("message"), fields.text_or_none("id"))


def _pending_update_json(update: PendingUpdate) -> dict[str, object]:
    entry: dict[str, object] = {"ts": update.ts.isoformat(), "message": update.message}
    return entry if update.id is None else entry | {"id": update.id}
