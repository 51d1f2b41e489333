"""`ping_user`, `send_file`: how the agent reaches the owner beside its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ollim_bot.agent import Tool, ToolAnswer
from ollim_bot.domain.jobs import Reminder
from ollim_bot.domain.snoozing import note_of, reminder_card
from ollim_bot.tools.server.bench import Workbench
from ollim_bot.tools.server.schemas import arguments, text
from ollim_bot.tools.server.sendable import sendable
from ollim_bot.tools.server.sending import CRITICAL, message_of, sent

_ONLY_IN_BACKGROUND = "Here your answer itself reaches the owner. Say it there."


def ping_user(bench: Workbench) -> Tool:
    async def run(given: Mapping[str, object]) -> ToolAnswer:
        if not bench.run.policy.kind.is_background:
            return ToolAnswer(_ONLY_IN_BACKGROUND, is_error=True)
        words = str(given["message"]).strip()
        if not words:
            return ToolAnswer("A ping needs words.", is_error=True)
        return await _pinged(bench, words, is_critical=given.get("critical") is True)

    return Tool(
        "ping_user",
        "Send the owner one short message from a background run. One for each run, within the "
        "ping budget.",
        arguments(["message"], message=text("what the owner should know"), critical=CRITICAL),
        run,
    )


def send_file(bench: Workbench) -> Tool:
    async def run(given: Mapping[str, object]) -> ToolAnswer:
        file = await asyncio.to_thread(sendable, bench.root, str(given["file_path"]))
        words = str(given.get("message") or "").strip() or file.name
        message = message_of(bench, words, attachments=(file,))
        return await sent(bench, message, is_critical=given.get("critical") is True)

    return Tool(
        "send_file",
        "Send the owner a file of the data directory, 25 MB at most.",
        arguments(
            ["file_path"],
            file_path=text("below the data directory, such as notes/plan.md"),
            message=text("a line to go with it"),
            critical=CRITICAL,
        ),
        run,
    )


async def _pinged(bench: Workbench, words: str, *, is_critical: bool) -> ToolAnswer:
    """With buttons for a reminder, so that it can be ticked off or put off."""
    job = bench.run.job
    if not isinstance(job, Reminder):
        return await sent(bench, message_of(bench, words), is_critical=is_critical)
    key = await asyncio.to_thread(bench.stores.store_inquiry, note_of(job), bench.clock.now())
    message = message_of(bench, words, card=reminder_card(words, key))
    answer = await sent(bench, message, is_critical=is_critical)
    if answer.is_error:
        await asyncio.to_thread(bench.stores.forget_inquiries, {key})
    return answer
