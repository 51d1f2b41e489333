"""What the owner does with jobs, and what an agent calls in the scripts of these tests."""

from __future__ import annotations

from datetime import datetime

from devtools.doubles.engine import CallsTool
from tests.kernel.schedule.scene import NOW, ScheduleScene

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.store.run_requests import RequestFolder
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.occurrences import Occurrence


def pings(words: str, **more: object) -> CallsTool:
    return CallsTool("mcp__discord__ping_user", {"message": words, **more})


def asks(at: ScheduleScene, kind: JobKind, job_id: str, made: datetime = NOW) -> None:
    RequestFolder(at.paths).put(kind, job_id, made)


async def card_of(at: ScheduleScene, command: str) -> ChatMessage:
    """The card of the first job that the command lists."""
    answer = await at.chat.command("web", command)
    assert not answer.is_error, answer
    await press(at, at.log[-1], "More")
    return at.log[-1]


async def press(at: ScheduleScene, message: ChatMessage, label: str) -> str:
    shown = next(one for one in at.log if one.id == message.id)
    assert shown.card is not None
    button = next(one for one in shown.card.buttons if one.label == label)
    return (await at.chat.click("web", message.id, button.custom_id)).text


def skip(at: ScheduleScene, job_id: str, moment: datetime) -> None:
    occurrence = Occurrence.scheduled(JobKind.ROUTINE, job_id, moment)
    now = at.clock.now()
    at.stores.state.run(
        lambda tx: tx.skips.change(lambda skips: skips.with_moment(occurrence, now))
    )
