"""The engine's record of a session is read without an engine: torn, long, or foreign."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from claude_agent_sdk import project_key_for_directory
from hypothesis import example, given
from hypothesis import strategies as st

from ollim_bot.kernel.base.errors import EngineError
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.engine.transcripts import Transcripts, project_key, trace_of
from ollim_bot.kernel.values.ports import Trace

NOT_TAKEN = Trace(is_taken=False)
PROMPT = "0a1b2c3d-0000-4000-8000-000000000001"


def line(**entry: Any) -> bytes:
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"


def asked(text: str, name: str = PROMPT, **more: Any) -> bytes:
    message = {"role": "user", "content": [{"type": "text", "text": text}]}
    return line(
        **{"isSidechain": False, "promptId": name, "type": "user", "message": message} | more,
        uuid=name,
    )


def said(text: str, stop: str | None = "end_turn", **more: Any) -> bytes:
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}]
    message = {"model": "m", "content": content, "stop_reason": stop} | more.pop("message", {})
    return line(**{"type": "assistant", "message": message, "parentUuid": PROMPT} | more)


def result(name: str = PROMPT) -> bytes:
    message = {"content": [{"type": "tool_result", "content": "a text"}]}
    return line(type="user", promptId=name, message=message)


def noise() -> bytes:
    return line(type="api-request", id=PROMPT, params={"model": "m"})


def trace(*lines: bytes, prompt: str = PROMPT, chunk: int = 64) -> Trace:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "session.jsonl")
        path.write_bytes(b"".join(lines))
        return trace_of(path, prompt, chunk)


@dataclass(frozen=True)
class Turn:
    name: str
    lines: tuple[bytes, ...]
    trace: Trace


STEPS = st.sampled_from(["says", "calls", "hears", "goes on", "is silent", "subagent says"])
WORDS = st.text(min_size=1, max_size=60)


@st.composite
def turns(draw: st.DrawFn) -> list[Turn]:
    names = draw(st.lists(st.uuids(version=4).map(str), min_size=1, max_size=5, unique=True))
    return [_turn(name, draw(st.lists(st.tuples(STEPS, WORDS), max_size=6))) for name in names]


def _turn(name: str, steps: list[tuple[str, str]]) -> Turn:
    lines, answer, is_complete = [asked(name, name), noise()], list[str](), False
    for step, text in steps:
        match step:
            case "says":
                lines.append(said(text))
                answer, is_complete = [*answer, text], True
            case "calls":
                lines.append(said(text, "tool_use"))
                answer, is_complete = [*answer, text], False
            case "hears":
                lines.append(result(name))
                is_complete = False
            case "goes on":
                lines.append(
                    line(type="user", promptId=name, isMeta=True, message={"content": text})
                )
                is_complete = False
            case "is silent":
                lines.append(said(text, "stop_sequence", message={"model": "<synthetic>"}))
                is_complete = False
            case _:
                lines.append(said(text, isSidechain=True))
    return Turn(name, tuple(lines), Trace(True, is_complete, "\n\n".join(answer)))


@given(turns=turns(), chunk=st.integers(40, 300), torn=st.binary(max_size=80))
def test_each_prompt_is_found_with_what_was_said_to_it(
    turns: list[Turn], chunk: int, torn: bytes
) -> None:
    lines = [one for turn in turns for one in turn.lines]
    for turn in turns:
        assert trace(*lines, torn, prompt=turn.name, chunk=chunk) == turn.trace


@given(lines=st.lists(st.binary(max_size=100)), name=st.uuids(), chunk=st.integers(40, 200))
def test_a_record_that_makes_no_sense_has_taken_nothing(
    lines: list[bytes], name: UUID, chunk: int
) -> None:
    broken = [PROMPT.encode() + one + b"\n" for one in lines]
    assert trace(*broken, prompt=str(name), chunk=chunk) == NOT_TAKEN
    assert trace(*broken, chunk=chunk) == NOT_TAKEN


@pytest.mark.parametrize("cut", range(2, 120, 7))
def test_a_line_that_is_torn_was_never_written(cut: int) -> None:
    assert trace(asked("hello"), said("Hello.")[:-cut]) == Trace(is_taken=True)
    assert trace(said("Hello."), asked("hello")[:-cut]) == NOT_TAKEN


def test_a_mention_of_the_name_is_no_prompt() -> None:
    assert trace(said(f'"{PROMPT}"'), noise()) == NOT_TAKEN
    assert trace(asked("hi", "another", parentUuid=PROMPT), said("Yes.")) == NOT_TAKEN


@pytest.mark.parametrize("entry", [{"type": "assistant"}, {"type": "user", "promptId": PROMPT}])
@pytest.mark.parametrize("message", [None, "text", {"content": None}, {"content": [None, {}]}])
def test_an_entry_without_a_message_says_nothing(entry: dict[str, Any], message: object) -> None:
    odd = line(**entry, message=message)
    assert trace(asked("hello"), odd, said("Hello.")) == Trace(True, True, "Hello.")


def test_an_answer_that_nobody_stopped_is_not_complete() -> None:
    assert trace(asked("hello"), said("Hel", None)) == Trace(True, False, "Hel")
    assert trace(asked("hello"), said("Hel", "max_tokens")) == Trace(True, False, "Hel")


def test_only_what_is_asked_for_is_read_of_a_long_record(tmp_path: Path) -> None:
    """The part before the prompt is not valid JSON, so reading it would fail."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"{" * 30_000_000 + b"\n" + asked("hello") + said("Hello."))
    assert trace_of(path, PROMPT) == Trace(True, True, "Hello.")
    assert trace_of(path, "another") == NOT_TAKEN


class Projects:
    """Records of sessions on disk, as the engine's program stores them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.here = home / "my data"
        self.here.mkdir()

    def write(self, name: str, *lines: bytes, at: int = 0, folder: str = "") -> Path:
        key = folder or "".join(sign if sign.isalnum() else "-" for sign in str(self.here))
        path = self.home / ".claude" / "projects" / key / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(lines))
        os.utime(path, (at, at))
        return path

    def listed(self, limit: int = 10) -> list[str]:
        stored = Transcripts({"HOME": str(self.home)}).sessions(self.here, limit)
        return [f"{one.id}: {one.first_prompt}" for one in stored]


@pytest.fixture
def projects(tmp_path: Path) -> Projects:
    return Projects(tmp_path)


def test_sessions_are_listed_by_their_first_prompt(projects: Projects) -> None:
    here = {"cwd": str(projects.here)}
    projects.write("old", noise(), asked("first words", **here), asked("later", **here), at=1)
    projects.write("new", asked("a remark", isMeta=True, **here), asked("hello", **here), at=2)
    assert projects.listed() == ["new: hello", "old: first words"]
    assert projects.listed(1) == ["new: hello"]
    assert projects.listed(0) == []


def test_a_session_that_a_restore_brought_from_another_folder_is_listed(projects: Projects) -> None:
    projects.write("moved", asked("hello", cwd="/home/ada/on/another/machine"))
    assert projects.listed() == ["moved: hello"]


def test_what_cannot_be_resumed_is_not_listed(projects: Projects) -> None:
    here = {"cwd": str(projects.here)}
    projects.write("empty")
    projects.write("torn", asked("hello", **here)[:-10])
    projects.write("subagent", asked("count", isSidechain=True, **here))
    path = projects.write("unread", noise(), noise())
    os.mkfifo(path.with_name("pipe.jsonl"))
    assert projects.listed() == []


def test_a_folder_whose_name_looks_the_same_is_another(projects: Projects) -> None:
    projects.write("theirs", asked("hello", cwd=str(projects.here).replace(" ", "-")))
    projects.write("mine", asked("hello", cwd=str(projects.here)))
    assert projects.listed() == ["mine: hello"]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=300))
@example("o\u0308" * 150)
@example("x" * 300)
def test_a_folder_of_records_has_the_name_that_the_sdk_gives_it(path: str) -> None:
    assert project_key(path) == project_key_for_directory(path)


def test_a_moved_session_is_traced_where_it_is_newest(projects: Projects) -> None:
    transcripts = Transcripts({"HOME": str(projects.home)})
    session = SessionId("moved")
    assert transcripts.find(session) is None
    projects.write("moved", asked("hello"), at=1, folder="a")
    newest = projects.write("moved", asked("hello"), said("Hello."), at=3, folder="b")
    projects.write("moved", asked("hello"), at=2, folder="c")
    assert transcripts.find(session) == newest
    assert transcripts.trace(session, PROMPT).is_complete
    assert transcripts.find(SessionId("../b/moved")) is None


def test_a_record_that_cannot_be_read_is_not_taken_for_none(projects: Projects) -> None:
    transcripts = Transcripts({"HOME": str(projects.home)})
    path = projects.write("broken", asked("hello"))
    path.unlink()
    path.symlink_to(projects.home)
    assert transcripts.find(SessionId("broken")) is None
    (projects.home / ".claude").rename(projects.home / "away")
    (projects.home / ".claude").mkdir()
    (projects.home / ".claude" / "projects").write_text("no folder")
    with pytest.raises(EngineError, match="projects: Not a directory"):
        transcripts.trace(SessionId("broken"), PROMPT)


def test_the_programs_own_folder_is_where_it_is_told_to_be(projects: Projects) -> None:
    projects.write("known", asked("hello"))
    elsewhere = {"HOME": "/nowhere", "CLAUDE_CONFIG_DIR": str(projects.home / ".claude")}
    assert Transcripts(elsewhere).find(SessionId("known")) is not None
    assert Transcripts(elsewhere | {"CLAUDE_CONFIG_DIR": ""}).find(SessionId("known")) is None
