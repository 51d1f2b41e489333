"""`run`: the running bot runs the job, the command reports that, and no request file is left."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.patience import patience
from tests.terminal import Terminal

from ollim_bot.features.jobs.job_command import run_job
from ollim_bot.features.jobs.routine_command import RoutineNoun
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.store.run_requests import RequestFolder, RunRequest
from ollim_bot.surfaces.terminal.caller import Caller


@pytest.fixture
def planned(terminal: Terminal) -> Terminal:
    terminal.done("routine", "add", "-m", "plan my day", "--cron", "0 8 * * *", "--id", "plan")
    terminal.done("reminder", "add", "-m", "call mum", "--in", "1h", "--id", "mum")
    return terminal


def left(terminal: Terminal) -> list[Path]:
    return sorted((terminal.paths.state / "run_requests").glob("*"))


@contextmanager
def bot(terminal: Terminal) -> Iterator[list[RunRequest]]:
    """A fake bot that takes every run request."""
    taken: list[RunRequest] = []
    is_over = threading.Event()
    folder = RequestFolder(terminal.paths)

    def serve() -> None:
        while not is_over.wait(0.005):
            for request in folder.all():
                if folder.take(request):
                    taken.append(request)
                folder.finish(request)

    thread = threading.Thread(target=serve)
    with single_instance(terminal.paths.bot_pid):
        thread.start()
        try:
            yield taken
        finally:
            is_over.set()
            thread.join(patience())


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("noun", "job", "sentence"),
    [
        ("routine", "plan", "Routine started: plan my day."),
        ("reminder", "mum", "Reminder started: call mum."),
    ],
)
def test_the_bot_is_asked_and_that_is_said(
    planned: Terminal, noun: str, job: str, sentence: str
) -> None:
    with bot(planned) as taken:
        answer = planned.done(noun, "run", job)
    assert answer == f"{sentence} `ollim-bot runs show {job}` tells what comes of it.\n"
    (request,) = taken
    assert (request.kind, request.job_id, request.at) == (JobKind(noun), job, planned.now)
    assert left(planned) == []


@pytest.mark.real_time
def test_a_job_is_named_by_its_file_too(planned: Terminal) -> None:
    with bot(planned) as taken:
        planned.done("routine", "run", "plan-my-day.md")
    assert [request.job_id for request in taken] == ["plan"]


def test_without_a_bot_it_says_so_and_asks_nobody(planned: Terminal) -> None:
    refusal = planned.refused("routine", "run", "plan", code=1)
    assert refusal == "The bot is not running, and only it can run this. Start it: ollim-bot\n"
    assert left(planned) == []


def test_what_is_not_there_cannot_be_run(terminal: Terminal) -> None:
    refusal = terminal.refused("routine", "run", "plan", code=1)
    assert refusal.startswith("There is no routine plan.")
    assert list(terminal.home.iterdir()) == []


def test_a_wrong_file_cannot_be_run(terminal: Terminal) -> None:
    terminal.write("routines/odd.md", "---\nid: odd\ncron: often\n---\nx\n")
    assert terminal.refused("routine", "run", "odd").startswith("routines/odd.md:3: cron: ")


@pytest.mark.real_time
def test_a_bot_that_does_not_answer_is_asked_no_longer(planned: Terminal) -> None:
    caller = Caller(planned.environ, planned.home, lambda: planned.now)
    with single_instance(planned.paths.bot_pid), pytest.raises(OllimError) as refused:
        run_job(RoutineNoun(), {"job": "plan"}, caller, wait_seconds=0.1)
    assert str(refused.value).startswith("The bot did not answer, so nothing was run. ")
    assert refused.value.exit_code == 1
    assert left(planned) == []


def test_what_is_withdrawn_cannot_be_taken_nor_the_other_way_round(planned: Terminal) -> None:
    folder = RequestFolder(planned.paths)
    now = datetime(2026, 11, 15, 13, 30, tzinfo=UTC)
    first = folder.put(JobKind.ROUTINE, "plan", now)
    assert folder.withdraw(first)
    assert not folder.take(first)
    second = folder.put(JobKind.ROUTINE, "plan", now)
    assert folder.take(second)
    assert not folder.withdraw(second)
    assert folder.all() == [second]
    folder.finish(second)
    assert (folder.all(), left(planned)) == ([], [])
