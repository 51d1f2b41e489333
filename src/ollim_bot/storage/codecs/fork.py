"""How the open interactive fork stands in its file; no fork is no file."""

from __future__ import annotations

from datetime import datetime, timedelta

from ollim_bot.domain.forks import Fork
from ollim_bot.domain.sessions import SessionId
from ollim_bot.storage.json_fields import FORMAT, Fields, parse_json, render_json, versioned

Warnings = tuple[str, ...]

_SECOND = timedelta(seconds=1)


class ForkCodec:
    def missing(self) -> Fork | None:
        return None

    def decode(self, raw: bytes) -> tuple[Fork | None, Warnings]:
        fields = Fields(versioned(parse_json(raw)))
        return (
            Fork(
                id=fields.text("id"),
                session=_session(fields, "session"),
                main=_session(fields, "main"),
                topic=fields.text_or_none("topic") or "",
                idle_limit=_SECOND
                * fields.whole("idle_seconds", least=1, most=timedelta.max // _SECOND),
                last_activity=fields.moment("last_activity"),
                began=fields.moment("began"),
                resumed_from=_session(fields, "resumed_from"),
                is_prompted=fields.flag("is_prompted"),
                has_answered=fields.flag("has_answered"),
                last_answer=fields.text_or_none("last_answer") or "",
                resumed_at=_moment(fields, "resumed_at"),
                model=fields.text_or_none("model"),
                seen=tuple(fields.texts("seen")),
            ),
            (),
        )

    def encode(self, value: Fork | None) -> bytes | None:
        if value is None:
            return None
        stored: dict[str, object] = {
            "version": FORMAT,
            "id": value.id,
            "session": value.session,
            "main": value.main,
            "topic": value.topic,
            "idle_seconds": max(1, value.idle_limit // _SECOND),
            "last_activity": value.last_activity.isoformat(),
            "began": value.began.isoformat(),
            "resumed_from": value.resumed_from,
            "is_prompted": value.is_prompted,
            "has_answered": value.has_answered,
            "last_answer": value.last_answer,
            "resumed_at": None if value.resumed_at is None else value.resumed_at.isoformat(),
            "model": value.model,
            "seen": list(value.seen),
        }
        return render_json(stored, indent=2)


def _session(fields: Fields, name: str) -> SessionId | None:
    text = fields.text_or_none(name)
    return SessionId(text) if text else None


def _moment(fields: Fields, name: str) -> datetime | None:
    return None if fields.text_or_none(name) is None else fields.moment(name)
