"""`ollim-bot runs check`: silent about a right ledger, a line for each thing that is wrong."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from tests.cli.terminal import Terminal, held
from tests.domain.ledger_scene import Scene, routine
from tests.storage.data_directory import DataDirectory
from tests.stores import Stores

from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.store.data_directory import prepare_data_directory
from ollim_bot.store.heartbeat import HeartbeatFile

DAY = timedelta(days=1)


def ledger_of(terminal: Terminal) -> Stores:
    return DataDirectory(terminal.paths.root).open()


def written(terminal: Terminal, rows: list[LedgerRow]) -> None:
    prepare_data_directory(terminal.paths)
    stores = ledger_of(terminal)
    for row in rows:
        stores.ledger.append(row)


def four_days(terminal: Terminal) -> Scene:
    """A ledger of some days up to the terminal's time, across the end of a month."""
    scene = Scene()
    scene.put(routine("morning", "30 8 * * *"))
    for _ in range(6):
        scene.wait(DAY)
        scene.checkpoint()
    terminal.now = scene.now
    return scene


def test_a_right_ledger_is_one_line(terminal: Terminal) -> None:
    written(terminal, four_days(terminal).rows)
    assert terminal.done("runs", "check") == (
        "6 runs, and nothing is missing, doubled or made up.\n"
    )
    assert terminal.json("runs", "check") == {"runs": 6, "watched_until": None, "findings": []}


def test_what_is_wrong_is_a_line_each_and_exit_code_1(terminal: Terminal) -> None:
    scene = four_days(terminal)
    where = [n for n, row in enumerate(scene.rows) if row.state == "due"]
    lost, doubled = scene.rows[where[1]].occurrence, scene.rows[where[3] + 2]
    assert lost is not None
    assert doubled.occurrence is not None
    rows = [row for row in scene.rows if row.occurrence != lost]
    written(terminal, [*rows, doubled])
    lines = (
        f"{doubled.occurrence.id}: has 2 ends: done, done.\n"
        f"{lost.id}: was due, and nothing is known of it.\n"
    )
    assert terminal.refused("runs", "check", code=1) == lines
    answer = terminal.run("runs", "check", "--json")
    assert (answer.code, answer.err) == (1, lines)
    assert json.loads(answer.out)["findings"] == lines.splitlines()


def test_no_runs_yet_is_right_too_and_nothing_is_made(terminal: Terminal) -> None:
    assert terminal.done("runs", "check") == "No runs yet.\n"
    assert list(terminal.home.iterdir()) == []


@pytest.mark.parametrize(("days", "code"), [(0, 0), (1, 1)])
def test_the_heartbeat_says_how_far_the_ledger_must_go(
    terminal: Terminal, days: int, code: int
) -> None:
    scene = four_days(terminal)
    written(terminal, scene.rows)
    terminal.wait(days=30)
    beat = scene.now + days * DAY
    HeartbeatFile(terminal.paths).write(beat)
    assert terminal.run("runs", "check").code == code


@pytest.mark.real_process
def test_it_works_while_the_bot_runs(terminal: Terminal) -> None:
    written(terminal, four_days(terminal).rows)
    with held("bot", terminal.paths.bot_pid):
        assert terminal.run("runs", "check").code == 0


def test_a_note_is_shown_as_a_step_and_is_no_outcome(terminal: Terminal) -> None:
    scene = Scene(lambda: "running effect done")
    scene.put(routine("morning", "30 8 * * *"))
    scene.wait(DAY)
    note = scene.rows[-2]
    scene.rows[-2] = LedgerRow(
        note.ts, note.state, note.occurrence, {"attempt": 1, "tool": "mcp__discord__ping_user"}
    )
    terminal.now = scene.now
    written(terminal, scene.rows[:-1])
    shown = terminal.done("runs", "show", "morning")
    assert "  outcome  running\n" in shown
    assert "reached out with ping_user\n" in shown
