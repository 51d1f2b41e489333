"""Imports the facts of an older version's `memory.json` into the records that replace them.

A fact of a wrong type counts as missing. Facts without a record are kept as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime

from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.initiative import SetByAgent
from ollim_bot.domain.notices import Notice, NoticeRecord
from ollim_bot.domain.owner_choices import GivenNames, Grants, Skips
from ollim_bot.domain.presence import Presence
from ollim_bot.domain.provider_memory import ProviderMemory
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.surface_state import DiscordState, WebState, is_ref
from ollim_bot.domain.updates import PendingUpdate
from ollim_bot.store.steps import leave_update
from ollim_bot.store.transaction import Transaction

Facts = Mapping[str, object]

_KNOWN = {
    *("provider", "parked", "untried", "moving", "user_name", "bot_name", "web_read"),
    *("discord_last_seen", "discord_commands", "discord_drafts", "heartbeat"),
    *("running_since", "stopped", "cut_off_at", "told", "last_told_at", "untold"),
    *("skips", "granted", "set_in_background"),
}


def import_facts(tx: Transaction, facts: Facts) -> None:
    """Put each fact into its record, and finish a change of the provider that had begun."""
    tx.presence.put(_presence(facts))
    tx.names.put(GivenNames(_text(facts.get("user_name")), _text(facts.get("bot_name"))))
    tx.grants.put(Grants(tuple(_texts(facts.get("granted")))))
    tx.skips.put(Skips(_moments(facts.get("skips"))))
    tx.initiative.put(_initiative(facts))
    tx.web.put(WebState(_message(facts.get("web_read"))))
    tx.discord.put(_discord(facts))
    _import_provider(tx, facts)
    _import_notices(tx, facts)
    tx.memory.put({name: value for name, value in facts.items() if name not in _KNOWN})


def heartbeat_of(facts: Facts) -> datetime | None:
    """When the bot was last known to run."""
    return _moment(facts.get("heartbeat"))


def _presence(facts: Facts) -> Presence:
    return Presence(
        _moment(facts.get("running_since")),
        facts.get("stopped") == "restart",
        _moment(facts.get("cut_off_at")),
    )


def _discord(facts: Facts) -> DiscordState:
    seen = _text(facts.get("discord_last_seen")) or ""
    drafts = dict.fromkeys(each for each in _texts(facts.get("discord_drafts")) if is_ref(each))
    return DiscordState(
        seen if is_ref(seen) else None, _text(facts.get("discord_commands")), tuple(drafts)
    )


def _initiative(facts: Facts) -> SetByAgent:
    stored = facts.get("set_in_background")
    pairs = (dict(_mapping(each)) for each in (stored if isinstance(stored, list) else ()))
    entries = ((_text(each.get("run")) or "", _day(each.get("day"))) for each in pairs)
    return SetByAgent(tuple((run, day) for run, day in entries if day))


def _import_provider(tx: Transaction, facts: Facts) -> None:
    parked = {kind: _session(value) for kind, value in _mapping(facts.get("parked"))}
    current = _text(facts.get("provider"))
    move = dict(_mapping(facts.get("moving")))
    if to := _text(move.get("to")):
        current = to
        tx.session.put(_session(move.get("next")))
    known = {kind: session for kind, session in parked.items() if session}
    tx.provider.put(ProviderMemory(current, known, facts.get("untried") is True))


def _import_notices(tx: Transaction, facts: Facts) -> None:
    stored = facts.get("untold")
    entries = [dict(_mapping(each)) for each in (stored if isinstance(stored, list) else ())]
    notices = [_notice(each) for each in entries]
    last = _moment(facts.get("last_told_at"))
    tx.notices.put(NoticeRecord(_moments(facts.get("told")), last, tuple(notices)))
    for notice, entry in zip(notices, entries, strict=True):
        if entry.get("is_owed") is True:
            leave_update(tx, PendingUpdate(tx.now, notice.text, notice.id))


def _notice(entry: Mapping[str, object]) -> Notice:
    name, key, text = (str(entry.get(field, "")) for field in ("id", "key", "text"))
    return Notice(name, key, text)


def _mapping(value: object) -> Iterable[tuple[str, object]]:
    return value.items() if isinstance(value, Mapping) else ()


def _moments(value: object) -> Mapping[str, datetime]:
    moments = {key: _moment(each) for key, each in _mapping(value)}
    return {key: moment for key, moment in moments.items() if moment}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _texts(value: object) -> list[str]:
    return [each for each in (value if isinstance(value, list) else ()) if isinstance(each, str)]


def _message(value: object) -> MessageId | None:
    text = _text(value)
    return None if text is None else MessageId(text)


def _session(value: object) -> SessionId | None:
    text = _text(value) or ""
    return SessionId(text) if re.fullmatch(r"[!-~]{1,200}", text) else None


def _day(value: object) -> date | None:
    try:
        return date.fromisoformat(_text(value) or "")
    except ValueError:
        return None


def _moment(value: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(_text(value) or "")
    except ValueError:
        return None
    return None if moment.utcoffset() is None else moment
