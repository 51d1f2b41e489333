"""Every record reads back from its file as it was written."""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.store.files import chat_strategies
from tests.kernel.store.files.data_directory import NOW, DataDirectory, QuickDisk
from tests.kernel.values import strategies

from ollim_bot.kernel.store.codecs.config_codec import RuntimeConfigCodec
from ollim_bot.kernel.store.codecs.ledger_codec import LEDGER_ROWS
from ollim_bot.kernel.store.codecs.message_codec import CHAT_MESSAGES
from ollim_bot.kernel.store.codecs.plain import LineCodec
from ollim_bot.kernel.store.codecs.record_codecs import (
    BUTTON_PROMPTS,
    FORK,
    FORK_MESSAGES,
    PENDING_UPDATES,
    SESSION_EVENTS,
    SESSION_ID,
    ping_budget_codec,
)
from ollim_bot.kernel.store.file_store import Codec, Malformed
from ollim_bot.kernel.store.inbox_rows import INBOX_ROWS
from ollim_bot.kernel.store.job_formats import REMINDERS
from ollim_bot.kernel.values.pings import PingBudget

VALUES: list[tuple[Codec[Any], st.SearchStrategy[Any]]] = [
    (SESSION_ID, strategies.session_ids | st.none()),
    (PENDING_UPDATES, strategies.pending_updates()),
    (FORK_MESSAGES, st.lists(strategies.fork_messages, max_size=5).map(tuple)),
    (BUTTON_PROMPTS, strategies.inquiries),
    (ping_budget_codec(lambda: NOW), strategies.ping_budgets()),
    (RuntimeConfigCodec(), strategies.runtime_configs()),
    (FORK, chat_strategies.forks),
]
LINES: list[tuple[LineCodec[Any], st.SearchStrategy[Any]]] = [
    (SESSION_EVENTS, strategies.session_events),
    (LEDGER_ROWS, strategies.ledger_rows),
    (INBOX_ROWS, chat_strategies.inbox_rows),
    (CHAT_MESSAGES, chat_strategies.chat_messages),
]
LINE_NAMES = ["session event", "ledger row", "inbox row", "message"]


@pytest.mark.parametrize(("codec", "values"), VALUES, ids=lambda value: type(value).__name__)
@given(data=st.data())
def test_values(codec: Codec[Any], values: st.SearchStrategy[Any], data: st.DataObject) -> None:
    value = data.draw(values)
    encoded = codec.encode(value)
    decoded = codec.missing() if encoded is None else codec.decode(encoded)[0]
    assert decoded == value


@pytest.mark.parametrize(("codec", "entries"), LINES, ids=LINE_NAMES)
@given(data=st.data())
def test_lines(codec: LineCodec[Any], entries: st.SearchStrategy[Any], data: st.DataObject) -> None:
    entry = data.draw(entries)
    encoded = codec.encode(entry)
    assert b"\n" not in encoded
    assert codec.decode(encoded) == entry
    later = json.loads(encoded) | {"mood": data.draw(strategies.json_values)}
    is_passed_over = codec.decode(json.dumps(later).encode()) == entry
    assert is_passed_over or codec is LEDGER_ROWS, "any key is a fact there"
    try:
        other = codec.decode(damaged(encoded, data))
    except Malformed:
        return
    assert codec.decode(codec.encode(other)) == other


def damaged(line: bytes, data: st.DataObject) -> bytes:
    """The line with another value in one of its fields, at any level."""
    fields = json.loads(line)
    target = fields
    name = data.draw(st.sampled_from(sorted(target)))
    while isinstance(target[name], dict) and target[name] and data.draw(st.booleans()):
        target = target[name]
        name = data.draw(st.sampled_from(sorted(target)))
    target[name] = data.draw(st.just("") | strategies.json_values)
    return json.dumps(fields).encode()


@pytest.mark.parametrize("kind", ["routines", "reminders", "webhooks"])
@given(data=st.data())
def test_jobs(kind: str, data: st.DataObject) -> None:
    jobs = data.draw(
        st.lists(getattr(strategies, kind), max_size=3, unique_by=lambda job: job.spec.id)
    )
    with tempfile.TemporaryDirectory() as root:
        repository = getattr(DataDirectory(Path(root)).repositories(QuickDisk()), kind)
        for job in jobs:
            repository.add(job)
        found = {stored.item.spec.id: stored.item for stored in repository.all()}
        assert found == {job.spec.id: job for job in jobs}


def test_a_moment_with_a_fraction_is_kept_to_the_second_whatever_writes_it(tmp_path: Path) -> None:
    reminders = DataDirectory(tmp_path).repositories(QuickDisk()).reminders

    def whole(moment: datetime) -> datetime:
        return moment.replace(microsecond=0)

    @given(strategies.moments, strategies.moments, strategies.moments)
    def law(run_at: datetime, set_at: datetime, moved: datetime) -> None:
        for each in reminders.all():
            reminders.remove(each.item.spec.id)
        fields = {"id": "words", "run-at": run_at, "set-at": set_at}
        made = REMINDERS.made(fields, "Gieß die Blumen.")
        assert (made.run_at, made.set_at) == (whole(run_at), whole(set_at))
        path = reminders.add(made)
        assert reminders.get("words").item == made

        changed = reminders.amend("words", {"run-at": moved})
        assert reminders.get("words").item == changed == replace(made, run_at=whole(moved))

        by_hand = re.sub("^run-at: .*$", f"run-at: {run_at}", path.read_text(), flags=re.M)
        path.write_text(by_hand)
        assert reminders.get("words").item == made

    law()


@given(strategies.ping_budgets(), st.integers(0, 2**40))
def test_the_number_of_payments_stays_with_the_budget(budget: PingBudget, payments: int) -> None:
    codec = ping_budget_codec(lambda: NOW)
    budget = replace(budget, payments=payments)
    assert codec.decode(codec.encode(budget) or b"") == (budget, ())
