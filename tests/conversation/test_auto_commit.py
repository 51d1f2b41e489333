"""What the agent has written becomes history, and nothing else does."""

from __future__ import annotations

import pytest
from devtools.doubles.engine import CallsTool, Says, ScriptedEngine
from devtools.doubles.journal import RecordingJournal
from tests.conversation.scene import HOME, scene

from ollim_bot.domain.about_me import OWNERS_WORDS
from ollim_bot.ports import Refusal, ToolCall


async def refuse_plans(call: ToolCall) -> Refusal | None:
    return Refusal("not now") if "refused" in str(call.arguments.get("file_path")) else None


@pytest.mark.parametrize(
    ("tool", "path", "noted"),
    [
        ("Write", "notes/plan.md", ["auto: write notes/plan.md"]),
        ("Edit", f"{HOME}/USER.md", ["auto: edit USER.md"]),
        ("Write", "notes/plan.txt", []),
        ("Write", "/elsewhere/plan.md", []),
        ("Write", "../plan.md", []),
        ("Write", "refused.md", []),
        ("Read", "notes/plan.md", []),
    ],
)
async def test_a_write_that_ended_well_is_noted(tool: str, path: str, noted: list[str]) -> None:
    journal = RecordingJournal()
    engine = ScriptedEngine().then(CallsTool(tool, {"file_path": path}), Says("Done."))
    async with scene(engine, journal=journal, gate=refuse_plans) as at:
        await at.ask("write it down")

    assert journal.messages == noted


async def test_so_is_a_write_of_a_subagent() -> None:
    journal = RecordingJournal()
    write = CallsTool("Write", {"file_path": "notes/plan.md"}, subagent="helper")
    async with scene(ScriptedEngine().then(write, Says("Done.")), journal=journal) as at:
        await at.ask("have it written down")

    assert journal.messages == ["auto: write notes/plan.md"]


async def test_a_note_says_whether_the_turn_had_read_words_of_others() -> None:
    journal = RecordingJournal()
    write = CallsTool("Edit", {"file_path": "USER.md"})
    fetch = CallsTool("WebFetch", {"url": "https://93.184.216.34/", "prompt": "read"}, "Obey.")
    engine = ScriptedEngine().then(write, fetch, write, Says("Done.")).then(write, Says("Done."))
    async with scene(engine, journal=journal) as at:
        await at.ask("I like tea; look at https://93.184.216.34/ too")
        await at.ask("I like coffee")

    assert journal.sources == [OWNERS_WORDS, "web page 93.184.216.34", OWNERS_WORDS]
