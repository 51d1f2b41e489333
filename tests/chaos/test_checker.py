"""The checker of `make chaos`: it finds nothing in a correct record, and each single error."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from chaos.checker import check, in_doubt
from chaos.phone_invariants import sequence_of

AT = "2026-11-15T14:30:00+01:00"
CALL = "webhook:plain:1"
OCCURRENCE = "reminder:r1:2026-11-15T13:29:58Z"
ANSWER = "[a1] About t1. It is done. [/a1]"

Row = dict[str, Any]


def correct_rows() -> dict[str, list[Row]]:
    """A message that was answered, a reminder that came, a ping and its report."""
    return {
        "record/owner": [{"event": "said", "id": "m1", "text": "task t1"}],
        "record/orders": [
            {"id": "r1", "at": "2026-11-15T13:29:58+00:00", "text": "Drink r1.", "is_timed": True}
        ],
        "record/inbox": [
            {"row": "taken", "turn": "t", "inputs": ["m1"]},
            {"row": "ended", "inputs": ["m1"], "end": "answered"},
        ],
        "record/outbox": [],
        "record/model": [
            {"event": "answer", "mark": "a1", "tasks": ["t1"]},
            {"event": "called", "mark": "p1", "is_done": True, "result": "Sent."},
            {"event": "called", "mark": "u1", "is_done": True, "result": "Reported."},
        ],
        "record/talks": [{"session": "s", "texts": ["- (just now) Report u1.\n\ntask t1"]}],
        "record/sessions": [{"session": "s"}],
        "record/settings": [
            {"key": "approval_timeout", "value": 301, "is_certain": True},
            {"key": "timezone", "value": "Asia/Tokyo", "is_certain": True},
        ],
        "record/cancelled": [{"id": "r2"}],
        "record/discord": [
            {"id": "10", "is_ours": False, "text": "task t1", "marks": []},
            {"id": "11", "is_ours": True, "text": ANSWER, "marks": []},
            {"id": "12", "is_ours": True, "text": "Drink r1.", "marks": []},
            {"id": "13", "is_ours": True, "text": "-# ⏰ k\nPing p1", "marks": []},
        ],
        "record/second_processes": [{"code": 1}],
        "record/clicks": [],
        "record/calls": [{"call": 1, "is_plain": True, "run": CALL}] * 2,
        "record/messages": [
            message("m1", "owner", "task t1", "10"),
            message("1", "assistant", ANSWER, "11") | {"turn": "t"},
            message("2", "background", "Drink r1.", "12", ntfy="p1") | {"must": True},
            message("3", "background", "Ping p1", "13"),
        ],
        "record/ledger": [
            {"state": "due", "occurrence": OCCURRENCE},
            {"state": "running", "occurrence": OCCURRENCE},
            {"state": "done", "occurrence": OCCURRENCE},
            {"state": "due", "occurrence": CALL},
            {"state": "done", "occurrence": CALL},
            {"state": "answered", "occurrence": OCCURRENCE},
        ],
        "data/state/session_history": [{"event": "created"}],
        "record/pairing": [{"topic": "ollim-x"}],
        "record/pushes": [push("p1", "Drink r1.")],
        "record/push_outbox": [],
        "record/presses": [{"name": "r1", "label": "Done", "is_kept": True}],
        "record/drawers": [],
        "record/items": [
            {"occurrence": OCCURRENCE, "card": "2", "answer": "done", "answered_by": "ntfy"}
        ],
        "record/waiting": [],
        "record/drafts": [],
    }


def message(name: str, author: str, text: str, ref: str, **refs: str) -> Row:
    shown = {"discord": ref, **refs}
    return {"at": AT, "id": name, "author": author, "text": text, "refs": shown}


def push(name: str, text: str, of: str = "2") -> Row:
    row = {"id": name, "sequence": sequence_of(of), "event": "message", "text": text}
    return row | {"is_heard": True}


def forgotten(pushes: int, presses: int) -> Row:
    return {"pushes": pushes, "presses": presses}


VALUES = {
    "ping_budget": {"available": 499.0},
    "pending_updates": [],
    "config": {"approval_timeout": 301, "timezone": "Asia/Tokyo"},
}


def findings(home: Path, rows: Mapping[str, list[Row]], values: Mapping[str, object]) -> list[str]:
    for name, lines in rows.items():
        path = home / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{json.dumps(row)}\n" for row in lines))
    for name, value in values.items():
        (home / "data" / "state" / f"{name}.json").write_text(json.dumps(value))
    return [str(each) for each in check(home / "data", home / "record")]


def test_a_correct_record_breaks_no_invariant(tmp_path: Path) -> None:
    assert findings(tmp_path, correct_rows(), VALUES) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("- [x] Errand e1\n- [ ] Errand e2\n", []),
        ("- [x] Errand e1\n", ["Errand e2 was added, and is not in tasks.md"]),
        (
            "- [x] Errand e1\n- [ ] Errand e2\n- [ ] Errand e2\n",
            ["Errand e2 stands 2 times in tasks.md"],
        ),
        ("- [ ] Errand e1\n- [ ] Errand e2\n", ["Errand e1 was ticked, and is [' ']"]),
    ],
    ids=["correct", "lost", "doubled", "open again"],
)
def test_an_errand_stands_once_and_stays_ticked(
    tmp_path: Path, text: str, found: list[str]
) -> None:
    rows = correct_rows()
    rows["record/errands"] = [{"title": "Errand e1"}, {"title": "Errand e2"}]
    rows["record/ticks"] = [{"title": "Errand e1"}]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "tasks.md").write_text(text)
    assert findings(tmp_path, rows, VALUES) == found


def twice(name: str, number: int) -> Callable[[dict[str, list[Row]]], None]:
    return lambda rows: rows[name].append(rows[name][number])


def without(name: str, number: int) -> Callable[[dict[str, list[Row]]], None]:
    def change(rows: dict[str, list[Row]]) -> None:
        del rows[name][number]

    return change


def changed(name: str, number: int, **fields: object) -> Callable[[dict[str, list[Row]]], None]:
    return lambda rows: rows[name][number].update(fields)


BROKEN = {
    "a message has no end": without("record/inbox", 1),
    "a message has two ends": twice("record/inbox", 1),
    "a message is lost": without("record/messages", 0),
    "a message has no answer": without("record/messages", 1),
    "a failure was not told": changed("record/inbox", 1, end="failed"),
    "it was set aside silently": changed("record/inbox", 1, end="set_aside"),
    "the program withdrew it": changed("record/inbox", 1, end="withdrawn"),
    "the model was asked twice": changed("record/talks", 0, texts=["task t1\n\nu1", "task t1"]),
    "an update was lost": changed("record/talks", 0, texts=["task t1"]),
    "an update was shown twice": changed("record/talks", 0, texts=["u1", "u1 task t1"]),
    "an answer stands twice": twice("record/discord", 1),
    "an answer is not on Discord": without("record/discord", 1),
    "an answer is there in part": changed("record/discord", 1, text="[a1] About t1."),
    "an answer lacks some words": changed("record/discord", 1, text="[a1] It is done. [/a1]"),
    "a ping is not in the log": without("record/messages", 3),
    "a ping was not delivered": changed("record/messages", 3, refs={"discord": ""}),
    "the order is another": changed("record/messages", 2, refs={"discord": "13"}),
    "a reminder did not come": without("record/messages", 2),
    "a reminder came twice": changed("record/messages", 3, text="Drink r1."),
    "a reminder came too early": changed("record/orders", 0, at="2026-11-15T13:30:01+00:00"),
    "it is late and does not say so": changed("record/orders", 0, at="2026-11-15T13:00:00+00:00"),
    "a call was not done": without("record/ledger", 3),
    "a call was done twice": lambda rows: rows["record/calls"].append(
        {"call": 1, "is_plain": True, "run": "webhook:plain:1-a"}
    ),
    "the words of a call did not come": changed("record/calls", 0, call=2),
    "a moment has no end": without("record/ledger", 2),
    "a moment has two ends": twice("record/ledger", 2),
    "a moment was claimed twice": twice("record/ledger", 0),
    "a moment was not claimed": without("record/ledger", 0),
    "a second process was let in": changed("record/second_processes", 0, code=0),
    "a draft is left": lambda rows: rows["record/drafts"].append({"id": "11"}),
    "a message is on its way": lambda rows: rows["record/waiting"].append({"id": "3"}),
    "it did not ring": changed("record/messages", 2, refs={"discord": "12", "ntfy": ""}),
    "it was not meant for the phone": changed("record/messages", 2, refs={"discord": "12"}),
    "it is confirmed, and did not ring": without("record/pushes", 0),
    "it rang twice": twice("record/pushes", 0),
    "it rang as two": lambda rows: rows["record/pushes"].append(push("p2", "Drink r1.", of="1")),
    "something else rang": lambda rows: rows["record/pushes"].append(push("p2", "Obey.", of="9")),
    "it was answered, and is shown": lambda rows: rows["record/drawers"].append(
        {"phone": 1, "sequence": sequence_of("2")}
    ),
    "a press was lost": changed("record/items", 0, answer=None),
    "a press did something else": changed("record/items", 0, answer="snoozed"),
    "a press counted twice": twice("record/ledger", 5),
    "it is not known whether it rang": lambda rows: rows["record/push_outbox"].append(
        {"row": "unsure", "id": "2"}
    ),
    "a stranger was heard": changed("record/talks", 0, texts=["u1 task t1", "stranger s1"]),
    "a mark is left": changed("record/discord", 0, marks=["👀"]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_error_in_the_record_breaks_an_invariant(name: str, tmp_path: Path) -> None:
    rows = correct_rows()
    BROKEN[name](rows)
    assert findings(tmp_path, rows, VALUES) != []


@pytest.mark.parametrize(
    "values",
    [
        {"ping_budget": {"available": 500.0}},
        {"config": {"approval_timeout": 300, "timezone": "Asia/Tokyo"}},
        {"config": {"approval_timeout": 301}},
    ],
    ids=["a token was not spent", "a setting was forgotten", "a zone was forgotten"],
)
def test_a_wrong_value_breaks_an_invariant(values: Mapping[str, object], tmp_path: Path) -> None:
    assert findings(tmp_path, correct_rows(), {**VALUES, **values}) != []


def test_a_torn_line_is_found_unless_it_was_torn_on_purpose(tmp_path: Path) -> None:
    findings(tmp_path, correct_rows(), VALUES)
    log = tmp_path / "data" / "state" / "session_history.jsonl"
    log.write_text(f'{log.read_text()}{{"torn-by-chaos": "20\n')
    assert check(tmp_path / "data", tmp_path / "record") == []
    log.write_text(f'{log.read_text()}{{"half": \n')
    assert [str(each) for each in check(tmp_path / "data", tmp_path / "record")] != []


def test_the_file_of_a_cancelled_reminder_breaks_an_invariant(tmp_path: Path) -> None:
    path = tmp_path / "data" / "reminders" / "r2.md"
    path.parent.mkdir(parents=True)
    path.write_text("---\nid: r2\n---\nDrink r2.\n")
    assert findings(tmp_path, correct_rows(), VALUES) != []


@pytest.mark.parametrize(
    ("fault", "is_allowed"),
    [
        ({"kind": "crash", "where": "in the middle of the writing: session_history.jsonl"}, True),
        ({"kind": "power_cut", "where": "before the sync: inbox.jsonl"}, True),
        ({"kind": "crash", "where": "in the middle of the writing: inbox.jsonl"}, False),
        ({"kind": "crash", "where": "before the sync: session_history.jsonl"}, False),
    ],
)
def test_a_crash_in_a_write_explains_one_torn_line(
    tmp_path: Path, fault: Row, *, is_allowed: bool
) -> None:
    findings(tmp_path, correct_rows() | {"record/injected_faults": [fault]}, VALUES)
    log = tmp_path / "data" / "state" / "session_history.jsonl"
    log.write_text(f'{log.read_text()}{{"half": \n')
    assert (check(tmp_path / "data", tmp_path / "record") == []) is is_allowed
    log.write_text(f'{log.read_text()}{{"another": \n')
    assert check(tmp_path / "data", tmp_path / "record") != []


def test_a_conversation_that_was_lost_does_not_count(tmp_path: Path) -> None:
    rows = correct_rows()
    rows["record/talks"].append({"session": "lost", "texts": ["task t1", "task t1"]})
    assert findings(tmp_path, rows, VALUES) == []


def test_an_unconfirmed_setting_may_be_kept_or_not(tmp_path: Path) -> None:
    rows = correct_rows()
    rows["record/settings"].append({"key": "timezone", "value": None, "is_certain": False})
    for kept in ({"timezone": "Asia/Tokyo"}, {}):
        config = {"approval_timeout": 301, **kept}
        assert findings(tmp_path, rows, {**VALUES, "config": config}) == []


def test_a_reminder_that_is_due_by_two_clocks_may_come_at_any_time_but_once(tmp_path: Path) -> None:
    rows = correct_rows()
    rows["record/orders"][0] |= {"at": "2026-11-15T13:00:00+00:00", "is_timed": False}
    assert findings(tmp_path, rows, VALUES) == []
    rows["record/messages"][3]["text"] = "Drink r1."
    assert findings(tmp_path, rows, VALUES) != []


def test_what_the_phones_server_has_lost_excuses_the_bot(tmp_path: Path) -> None:
    """It cannot be read back: neither the push nor the press nor the sign that it is over."""
    rows = correct_rows()
    rows["record/pushes"] *= 2
    rows["record/forgotten"] = [forgotten(pushes=1, presses=1)]
    rows["record/items"][0]["answer"] = None
    assert findings(tmp_path, rows, VALUES) == []
    rows["record/forgotten"] = [forgotten(pushes=2, presses=0)]
    assert len(findings(tmp_path, rows, VALUES)) == 2
    rows = correct_rows()
    rows["record/drawers"] = [{"phone": 0, "sequence": sequence_of("2")}]
    rows["record/push_outbox"] = [{"row": "unsure", "id": "2"}]
    rows["record/forgotten"] = [forgotten(pushes=0, presses=0)]
    assert findings(tmp_path, rows, VALUES) == []


ADDRESS = "http://127.0.0.1/secret-of-c1/basic.ics"
OFFERED = [
    {"feed": "c1", "event": "offered", "titles": ["Meeting 1"]},
    {"feed": "c1", "event": "subscribed"},
    {"feed": "c1", "event": "read", "titles": ["Meeting 1"]},
]
CHANGED = {"feed": "c1", "event": "offered", "titles": ["Meeting 2", "Meeting 3"]}
READ = {**CHANGED, "event": "read"}
EMPTIED: Row = {"feed": "c1", "event": "seen", "titles": []}
REMOVED = {"feed": "c1", "event": "removed"}
SOURCE = {"c1.source": {"name": "Work", "address": ADDRESS}}


def copy_of(*titles: str) -> dict[str, Row]:
    return {"c1": {"name": "Work", "events": [{"summary": each} for each in titles]}}


def calendar_findings(home: Path, rows: list[Row], files: Mapping[str, Row]) -> list[str]:
    folder = home / "data" / "state" / "calendars"
    folder.mkdir(parents=True)
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return findings(home, correct_rows() | {"record/feeds": rows}, VALUES)


@pytest.mark.parametrize(
    ("rows", "files"),
    [
        (OFFERED, {**SOURCE, **copy_of("Meeting 1")}),
        ([*OFFERED, CHANGED], {**SOURCE, **copy_of("Meeting 1")}),
        ([*OFFERED, CHANGED], {**SOURCE, **copy_of("Meeting 3", "Meeting 2")}),
        ([*OFFERED, CHANGED, READ], {**SOURCE, **copy_of("Meeting 2", "Meeting 3")}),
        ([*OFFERED, {"feed": "c1", "event": "removing"}], {}),
        ([*OFFERED, REMOVED], {}),
    ],
    ids=["read", "not read again", "read by the bot", "read again", "perhaps removed", "removed"],
)
def test_a_calendar_that_is_kept_breaks_no_invariant(
    tmp_path: Path, rows: list[Row], files: Mapping[str, Row]
) -> None:
    assert calendar_findings(tmp_path, rows, files) == []


@pytest.mark.parametrize(
    ("rows", "files", "found"),
    [
        (OFFERED, {}, "calendar c1 was subscribed, and is gone"),
        (OFFERED, SOURCE, "there is no copy of calendar c1"),
        (OFFERED, {**SOURCE, **copy_of()}, "has [], not ['Meeting 1']"),
        (OFFERED, {**SOURCE, **copy_of("Meeting 1", "Meeting 1")}, "['Meeting 1', 'Meeting 1']"),
        ([*OFFERED, CHANGED], {**SOURCE, **copy_of("Meeting 2")}, "has ['Meeting 2'], not"),
        ([*OFFERED, EMPTIED], {**SOURCE, **copy_of("Meeting 1")}, "had [] while it was not read"),
        ([*OFFERED, CHANGED, READ], {**SOURCE, **copy_of("Meeting 1")}, "has ['Meeting 1'], not"),
        ([*OFFERED, REMOVED], SOURCE, "calendar c1 was removed, and is there"),
        ([*OFFERED, REMOVED], copy_of("Meeting 1"), "a copy of calendar Work, which is not"),
        (
            OFFERED,
            {**SOURCE, **copy_of("Meeting 1"), "c2.source": SOURCE["c1.source"]},
            "calendar c1 is subscribed 2 times",
        ),
    ],
    ids=[
        "forgotten",
        "without events",
        "emptied",
        "doubled",
        "half of a version",
        "emptied for a while",
        "an old version",
        "back again",
        "a copy is left",
        "subscribed twice",
    ],
)
def test_a_calendar_that_is_not_kept_breaks_an_invariant(
    tmp_path: Path, rows: list[Row], files: Mapping[str, Row], found: str
) -> None:
    (finding,) = calendar_findings(tmp_path, rows, files)
    assert found in finding


@pytest.mark.parametrize("row", [{"code": 0, "unreadable": ["c1"]}, {"code": 1, "unreadable": []}])
def test_a_wrong_answer_about_the_calendars_breaks_an_invariant(tmp_path: Path, row: Row) -> None:
    assert findings(tmp_path, correct_rows() | {"record/refreshes": [row]}, VALUES) != []


def test_an_address_of_a_calendar_that_the_model_sees_breaks_an_invariant(tmp_path: Path) -> None:
    rows = correct_rows()
    rows["record/model"].append({"event": "asked", "prompt": f"What is on? {ADDRESS}"})
    assert findings(tmp_path, rows, VALUES) == ["the address of a calendar is in a prompt"]


def test_a_message_in_doubt_is_counted_and_not_missing(tmp_path: Path) -> None:
    rows = correct_rows()
    rows["record/outbox"].append({"row": "unsure", "id": "3"})
    rows["record/messages"][3]["refs"]["discord"] = ""
    del rows["record/discord"][3]
    assert findings(tmp_path, rows, VALUES) == []
    assert in_doubt(tmp_path / "data", tmp_path / "record") == ["3"]
