"""The facts of an older version become records, and no content of that file does harm."""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import partial

from devtools.doubles.repeating_store import RepeatingStore
from hypothesis import given
from hypothesis import strategies as st
from tests.domain.strategies import json_values

from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.initiative import SetByAgent
from ollim_bot.domain.notices import Notice, NoticeRecord
from ollim_bot.domain.presence import Presence
from ollim_bot.domain.provider import ProviderMemory
from ollim_bot.domain.schedule import GivenNames, Grants, Skips
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.surface_state import DiscordState, WebState
from ollim_bot.store.records import Record
from ollim_bot.store.takeover import heartbeat_of, import_facts
from ollim_bot.store.transaction import Transaction

NOW = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)
STAMP = NOW.isoformat()
NAMES = (
    *("provider", "parked", "moving", "untried", "user_name", "bot_name", "web_read", "heartbeat"),
    *("running_since", "stopped", "cut_off_at", "told", "last_told_at", "untold", "granted"),
    *("skips", "set_in_background", "discord_last_seen", "discord_commands", "discord_drafts"),
)


def imported(facts: dict[str, object]) -> RepeatingStore:
    store = RepeatingStore(lambda: NOW)
    store.run(lambda tx: import_facts(tx, facts))
    return store


def test_each_fact_goes_into_its_record_and_unknown_ones_are_kept() -> None:
    store = imported(
        {
            "provider": "claude",
            "parked": {"offline": "o1"},
            "user_name": "Ada",
            "web_read": "m1",
            "discord_last_seen": "7",
            "discord_drafts": ["8", "soon"],
            "running_since": STAMP,
            "stopped": "restart",
            "told": {"a": STAMP},
            "last_told_at": STAMP,
            "granted": ["Skill"],
            "skips": {"routine:plan": STAMP},
            "set_in_background": [{"run": "r1", "day": "2026-02-24"}],
            "heartbeat": STAMP,
            "of tomorrow": [1],
        }
    )
    assert store.query(lambda tx: tx.provider.get()) == ProviderMemory(
        "claude", {"offline": SessionId("o1")}
    )
    assert store.query(lambda tx: tx.names.get()) == GivenNames("Ada")
    assert store.query(lambda tx: tx.web.get()) == WebState(MessageId("m1"))
    assert store.query(lambda tx: tx.discord.get()) == DiscordState("7", None, ("8",))
    assert store.query(lambda tx: tx.presence.get()) == Presence(NOW, True)
    assert store.query(lambda tx: tx.notices.get()) == NoticeRecord({"a": NOW}, NOW)
    assert store.query(lambda tx: tx.grants.get()) == Grants(("Skill",))
    assert store.query(lambda tx: tx.skips.get()) == Skips({"routine:plan": NOW})
    day = SetByAgent((("r1", date(2026, 2, 24)),))
    assert store.query(lambda tx: tx.initiative.get()) == day
    assert store.query(lambda tx: tx.memory.get()) == {"of tomorrow": [1]}
    assert heartbeat_of({"heartbeat": STAMP}) == NOW


def test_a_change_of_the_provider_that_was_begun_is_finished() -> None:
    store = imported({"provider": "claude", "moving": {"to": "offline", "next": "o1"}})
    assert store.query(lambda tx: tx.provider.get()).current == "offline"
    assert store.query(lambda tx: tx.session.get()) == "o1"


def test_what_the_agent_was_still_owed_is_left_for_it() -> None:
    entry = {"id": "n1", "key": "k", "text": "The disk is full."}
    store = imported({"untold": [{**entry, "is_owed": True}, {**entry, "id": "n2", "key": "l"}]})
    notices = store.query(lambda tx: tx.notices.get()).untold
    assert notices == (
        Notice("n1", "k", "The disk is full."),
        Notice("n2", "l", "The disk is full."),
    )
    updates = store.query(lambda tx: tx.updates.get()).entries
    assert [update.id for update in updates] == ["n1"]


@given(st.dictionaries(st.sampled_from(NAMES), json_values))
def test_whatever_stands_there_can_be_taken_over(facts: dict[str, object]) -> None:
    store = imported(facts)
    for name in ("provider", "presence", "notices", "names", "grants", "skips", "discord", "web"):
        store.query(partial(_read, name=name))


def _read(tx: Transaction, name: str) -> object:
    record: Record[object] = getattr(tx, name)
    return record.get()
