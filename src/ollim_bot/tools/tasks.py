"""The tool that makes small steps of a task or an open reminder."""

from __future__ import annotations

from ollim_bot.domain.agent_caller import MARKED, Does, asks
from ollim_bot.domain.breakdowns import checked_steps
from ollim_bot.domain.changes import Changer
from ollim_bot.domain.text import counted
from ollim_bot.ports import ToolAnswer, ToolCall
from ollim_bot.store.changes import acting
from ollim_bot.tools.careful import Surroundings
from ollim_bot.tools.context import (
    FORK,
    MAIN,
    Arguments,
    OwnTool,
    ToolContext,
    arguments,
    listed,
    text,
)


async def _break_down(context: ToolContext, given: Arguments) -> ToolAnswer:
    said = given["steps"]
    steps = checked_steps([str(each) for each in said] if isinstance(said, list) else [])
    assert context.steps is not None
    ref = await context.steps.named(str(given["thing"]).strip())
    with acting(Changer.AGENT, session=context.run.called_by):
        thing = await context.steps.write(ref, steps, context.run.taint.mark, is_by_agent=True)
    shown = f"{counted(len(steps), 'step')} of “{thing.safe_words}” added"
    return ToolAnswer(f"{shown}, and shown to the owner. Do not repeat them.")


def _breaking_down(call: ToolCall, at: Surroundings) -> Does:
    """Steps are parts of what is the owner's, whose button may have asked for them."""
    is_asked = str(call.arguments.get("thing", "")).strip() in at.run.asked_steps
    return MARKED if is_asked else asks("change a task")


BREAK_DOWN = OwnTool(
    "break_down",
    "Make small steps parts of a task or an open reminder.",
    arguments(
        ["thing", "steps"],
        thing=text("its id, key or words"),
        steps=listed("the smallest first", {"type": "string"}),
    ),
    _break_down,
    careful=_breaking_down,
    where=MAIN | FORK,
    elsewhere="Steps are made in the conversation, when the owner wants them.",
)
