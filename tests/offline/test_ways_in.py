"""The same words make the same job: said in the chat, by the agent's tool, in the terminal."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.kernel.tools.server.tool_scene import make_tool_scene
from tests.offline.test_actions import TOOLS, step
from tests.terminal import Terminal

from ollim_bot.kernel.store.frontmatter import parse
from ollim_bot.kernel.store.job_formats import REMINDERS, JobFormat
from ollim_bot.kernel.store.routine_format import ROUTINES
from ollim_bot.kernel.values.agent_caller import CALLED_BY, CONVERSATION
from ollim_bot.kernel.values.runs import RunKind
from ollim_bot.offline.actions import ADD_REMINDER
from ollim_bot.offline.server import CallTool

pytestmark = pytest.mark.real_process

MUM = {"message": "call mum", "plain": True}
WATER = {"message": "drink water", "plain": True, "must": True}
PILLS = {"message": "take my pills", "plain": True, "kind": "dose"}


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path)


def file_of(job: Any, form: JobFormat[Any]) -> dict[str, object]:
    """The text and the fields of the job's file, except its name and when it comes."""
    fields = {"message": job.spec.message, **form.written(job)}
    return {name: fields[name] for name in fields.keys() - {"id", "run-at", "cron"}}


def in_terminal(terminal: Terminal, *words: str) -> dict[str, object]:
    form: JobFormat[Any] = ROUTINES if words[0] == "routine" else REMINDERS
    terminal.done(*words)
    (path,) = (terminal.paths.root / f"{words[0]}s").glob("*.md")
    job = form.read(parse(path.read_text())).job
    path.unlink()
    return file_of(job, form)


async def by_tool(root: Path, **arguments: object) -> dict[str, object]:
    at = make_tool_scene(root, RunKind.MAIN)
    await at.works("add_reminder", **arguments)
    (one,) = at.stores.reminders.all()
    return file_of(one.item, REMINDERS)


async def in_chat(terminal: Terminal, words: str) -> dict[str, object]:
    """What the offline model has its tools make of the owner's words."""
    (call,) = step(words)
    assert isinstance(call, CallTool), call
    assert call.name in TOOLS
    if call.name == ADD_REMINDER:
        return await by_tool(terminal.paths.root, **call.arguments)
    return in_terminal(terminal, *shlex.split(str(call.arguments["command"]))[1:])


@pytest.mark.parametrize(
    ("chat", "words", "made"),
    [
        ("remind me tomorrow at 9am to call mum", "remind me to call mum", MUM),
        ("don't let me forget to call mum tomorrow at 9am", "call mum", MUM),
        ("remind me tomorrow at 9am to take my pills", "take my pills", PILLS),
        (
            "remind me tomorrow at 9am to take my pills, and keep at it until I have",
            "remind me to take my pills, and keep at it until I have",
            {**PILLS, "nag": "10m x 4"},
        ),
        ("nag me tomorrow at 9am to call mum", "nag me to call mum", {**MUM, "nag": "10m x 4"}),
        (
            "remind me to call mum tomorrow at 9am, nag me every half hour until I do, 3 times",
            "call mum, nag me every half hour until I do, 3 times",
            {**MUM, "nag": "30m x 3"},
        ),
        (
            "remind me tomorrow at 9am to check my mail",
            "remind me to check my mail",
            {"message": "check my mail", "plain": True},
        ),
        (None, "check my mail for the invoice", {"message": "check my mail for the invoice"}),
    ],
)
async def test_a_reminder_is_the_same_whichever_way_it_comes_in(
    terminal: Terminal, chat: str | None, words: str, made: dict[str, object]
) -> None:
    assert in_terminal(terminal, "reminder", "add", "-m", words, "--at", "tomorrow 9am") == made
    assert await by_tool(terminal.home, prompt=words, run_at="tomorrow 9am") == made
    terminal.environ[CALLED_BY] = CONVERSATION
    assert in_terminal(terminal, "reminder", "add", "-m", words, "--at", "tomorrow 9am") == made
    if chat is not None:
        assert await in_chat(terminal, chat) == made


@pytest.mark.parametrize(
    ("chat", "words", "made"),
    [
        ("take my pills every day at 8am and 8pm", "take my pills", {**PILLS, "must": True}),
        (
            "remind me at 8 every day to take my pill, and keep at it until I have",
            "take my pill, and keep at it until I have",
            {**PILLS, "message": "take my pill", "must": True, "nag": "10m x 4"},
        ),
        ("drink water every 2 hours between 8 and 20", "drink water", WATER),
        ("tell me the news every day at 8am", "tell me the news", {"message": "tell me the news"}),
        (
            "ask me for my plan every weekday at 9am",
            "ask me for my plan",
            {"message": "ask me for my plan"},
        ),
    ],
)
async def test_a_routine_is_the_same_whichever_way_it_comes_in(
    terminal: Terminal, chat: str, words: str, made: dict[str, object]
) -> None:
    add = ("routine", "add", "-m", words, "--every", "day at 8am")
    assert in_terminal(terminal, *add) == made
    terminal.environ[CALLED_BY] = CONVERSATION
    assert in_terminal(terminal, *add) == made
    assert await in_chat(terminal, chat) == made
    run = in_terminal(terminal, *add, "--agent")
    assert "plain" not in run
    assert "kind" not in run
