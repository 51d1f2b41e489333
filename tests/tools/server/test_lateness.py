"""A message of a late run says when the run was due."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import count

import pytest
from tests.tools.server.tool_scene import BACKGROUND, NOW, MakeToolScene

from ollim_bot.domain.runs import RunKind

SPEAKING = [
    ("ping_user", {"message": "Three mails wait."}),
    ("discord_embed", {"title": "Three mails wait."}),
    ("send_file", {"file_path": "plan.md"}),
]


@pytest.mark.parametrize("kind", BACKGROUND)
@pytest.mark.parametrize(("name", "given"), SPEAKING)
async def test_whatever_a_late_run_says_is_labelled(
    tool_scene: MakeToolScene, kind: RunKind, name: str, given: dict[str, object]
) -> None:
    at = tool_scene(kind)
    (at.context.root / "plan.md").write_text("plan")
    at.run.late_since = NOW - timedelta(hours=1)
    await at.works(name, **given)
    (message,) = at.poster.messages
    assert message.footer == "Late: it was due today 8:00."


@pytest.mark.parametrize(("name", "given"), SPEAKING)
async def test_what_a_run_says_that_began_in_time_bears_no_label(
    tool_scene: MakeToolScene, name: str, given: dict[str, object]
) -> None:
    at = tool_scene()
    (at.context.root / "plan.md").write_text("plan")
    await at.works(name, **given)
    assert [message.footer for message in at.poster.messages] == [""]


async def test_the_day_is_that_of_the_message_also_if_it_had_to_wait(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene(must=True)
    at.run.late_since = NOW
    await at.clock.advance(timedelta(hours=14, minutes=59, seconds=30).total_seconds())
    at.is_busy = True
    call = asyncio.ensure_future(at.call("ping_user", message="Call mum"))
    async with asyncio.timeout(60):
        for _ in count():
            if at.clock.sleeping:
                break
            await asyncio.sleep(0)
    await at.clock.advance(60)
    at.is_busy = False
    await at.clock.advance(1)
    assert (await call).text == "Sent."
    (message,) = at.poster.messages
    assert message.footer == "Late: it was due yesterday 9:00."
