"""`enter_fork`, `exit_fork`, `save_context`: what the agent wants to become of the conversation.

They only write down an intent; the conversation acts on it when the turn has ended.
"""

from __future__ import annotations

from collections.abc import Mapping

from ollim_bot.agent import Tool, ToolAnswer
from ollim_bot.domain.forks import Discard, ForkExit, Save
from ollim_bot.domain.runs import EnterFork, RunKind
from ollim_bot.tools.server.bench import Workbench
from ollim_bot.tools.server.schemas import arguments, text, whole, whole_of

_ONLY_IN_MAIN = "A fork is opened from the main session only; forks are not nested."
_ONLY_IN_A_FORK = "This is not an interactive fork, so there is nothing to leave."


def enter_fork(bench: Workbench) -> Tool:
    async def run(given: Mapping[str, object]) -> ToolAnswer:
        if not bench.run.is_main:
            return ToolAnswer(_ONLY_IN_MAIN, is_error=True)
        topic = " ".join(str(given.get("topic") or "").split())
        await bench.wants(EnterFork(topic, whole_of(given.get("idle_timeout"))))
        return ToolAnswer("The fork opens when this turn has ended. End your turn now.")

    return Tool(
        "enter_fork",
        "Branch off: an interactive fork for a side topic, kept apart from the main conversation "
        "until it is saved, reported or discarded.",
        arguments(
            topic=text("what it is about; without one it waits for the owner"),
            idle_timeout=whole("minutes without a word after which it is asked to end", 1),
        ),
        run,
    )


def exit_fork(bench: Workbench) -> Tool:
    return _leaving(
        bench,
        "exit_fork",
        "End the interactive fork and drop it; nothing comes back to the main conversation.",
        Discard(),
        "The fork is dropped when this turn has ended.",
    )


def save_context(bench: Workbench) -> Tool:
    return _leaving(
        bench,
        "save_context",
        "End the interactive fork and make it the main conversation. The owner is asked first.",
        Save(),
        "The owner is asked when this turn has ended.",
    )


def _leaving(bench: Workbench, name: str, about: str, how: ForkExit, answer: str) -> Tool:
    async def run(_: Mapping[str, object]) -> ToolAnswer:
        if bench.run.policy.kind is not RunKind.FORK:
            return ToolAnswer(_ONLY_IN_A_FORK, is_error=True)
        await bench.wants(how)
        return ToolAnswer(answer)

    return Tool(name, about, arguments(), run)
