"""A session goes on where it was, even if its last process was killed."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.kernel.engine.processes import engines_at, eventually
from tests.kernel.engine.scene import Scene, ask, spoken

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.engine.transcripts import repair_resume_point
from ollim_bot.kernel.values.events import (
    AgentEvent,
    EndCause,
    Retrying,
    SessionNamed,
    TextCompleted,
    TextStreamed,
    TurnEnded,
    UsageReported,
)
from ollim_bot.kernel.values.ports import Prompt
from ollim_bot.offline.server import Fail, Reply, Say

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

FAILED = {"type": "system", "subtype": "api_error", "uuid": "b", "parentUuid": "a"}
LEFT_OFF = {"type": "last-prompt", "leafUuid": "b", "sessionId": "s"}


def said(name: str, after: str) -> dict[str, str]:
    return {"type": "user", "uuid": name, "parentUuid": after, "text": '"type":"last-prompt"'}


def record(path: Path, *rows: object, torn: str = "") -> Path:
    lines = "".join(f"{json.dumps(row, separators=(',', ':'))}\n" for row in rows)
    path.write_text(lines + torn)
    return path


@pytest.mark.parametrize("torn", ["", '{"type":"us'])
@pytest.mark.parametrize("chunk", [40, 1000])
def test_it_goes_on_from_its_end(tmp_path: Path, torn: str, chunk: int) -> None:
    path = record(tmp_path / "r", FAILED, LEFT_OFF, said("c", "a"), said("d", "c"), torn=torn)
    before = path.read_text()
    repair_resume_point(path, chunk)
    row = json.dumps({**LEFT_OFF, "leafUuid": "d"}, separators=(",", ":"))
    assert path.read_text() == before + ("\n" if torn else "") + row + "\n"


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [said("a", ""), said("c", "a")],
        [FAILED, LEFT_OFF],
        [FAILED, LEFT_OFF, {**FAILED, "uuid": "c"}],
        [FAILED, LEFT_OFF, said("c", "b"), said("d", "c")],
        [LEFT_OFF, said("c", "a"), {**LEFT_OFF, "leafUuid": "c"}, said("d", "c")],
    ],
    ids=["empty", "never ended", "nothing since", "only failures", "on it", "mended"],
)
def test_what_is_right_is_left_alone(tmp_path: Path, rows: list[object]) -> None:
    path = record(tmp_path / "r", *rows)
    before = path.read_text()
    repair_resume_point(path)
    assert path.read_text() == before


async def killed(scene: Scene, number: signal.Signals = signal.SIGKILL) -> None:
    (pid,) = engines_at(scene.home)
    os.kill(pid, number)
    await eventually(lambda: not engines_at(scene.home), 10)


def assert_it_streamed(name: SessionId | None, events: list[AgentEvent]) -> None:
    named, *streamed, whole, usage, ended = events
    assert named == SessionNamed(SessionId(str(name)))
    assert streamed == [TextStreamed("I will"), TextStreamed(" remem"), TextStreamed("ber.")]
    assert whole == TextCompleted("I will remember.")
    assert isinstance(usage, UsageReported)
    assert isinstance(ended, TurnEnded)
    assert (ended.cause, ended.text) == (EndCause.COMPLETED, "I will remember.")
    assert ended.failure is None
    assert ended.usage.context > 0
    assert ended.usage.window


@pytest.mark.real_process
@linux
async def test_a_turn_streams_its_text_and_a_resumed_session_knows_it_also_after_a_crash(
    scene: Scene,
) -> None:
    """The case of a clean end, and of a process that ended during failing requests.

    Otherwise the engine would resume from there, and lose all that came after it.
    """
    overloaded = Fail(529, "overloaded_error", "Overloaded", retry_after=30)
    scene.model.when("unheard", overloaded)
    scene.model.then(Reply((Say("I will remember."),), chunk=6)).answers("Two.", "Three.")
    async with scene.session() as session:
        events = await ask(session, "my cat is called Miso")
    name = session.id
    assert_it_streamed(name, events)
    async with scene.session(resume=name, system_prompt="You are new.") as session:
        assert session.id == name
        await ask(session, "what is my cat called?")
        asked = scene.model.requests[-1]
        said = ["my cat is called Miso", "I will remember.", "what is my cat called?"]
        assert session.id == name
        assert spoken(asked) == said
        assert asked.system.endswith("You are new.")
        async for event in session.turn(Prompt("unheard")):
            if isinstance(event, Retrying):
                await killed(scene, signal.SIGTERM)
    async with scene.session(resume=name) as session:
        await ask(session, "third")
        asked = scene.model.requests[-1]
        assert spoken(asked)[:4] == [*said, "Two."]
        await killed(scene)
    async with scene.session(resume=name) as session:
        await ask(session, "fourth")
    assert spoken(scene.model.requests[-1])[-3:] == ["third", "Three.", "fourth"]
