"""The tool that makes small steps of a task or an open reminder."""

from __future__ import annotations

from ollim_bot.domain.breakdowns import MOST_STEPS, checked_steps
from ollim_bot.domain.text import counted
from ollim_bot.ports import ToolAnswer
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
    thing = await context.steps.named(str(given["thing"]).strip())
    await context.steps.write(thing, steps, context.run.taint.mark, is_by_agent=True)
    shown = f"{counted(len(steps), 'step')} of “{thing.safe_words}” added"
    return ToolAnswer(f"{shown}, and shown to the owner. Do not repeat them.")


BREAK_DOWN = OwnTool(
    "break_down",
    "Add small steps to a task or an open reminder, as parts of it, all at once.",
    arguments(
        ["thing", "steps"],
        thing=text("its id, its key or its words"),
        steps=listed(f"what to do, the smallest first, {MOST_STEPS} at most", {"type": "string"}),
    ),
    _break_down,
    where=MAIN | FORK,
    elsewhere="Steps are made in the conversation, when the owner wants them.",
    prompt_line=(
        "`break_down`: makes small steps of a task or an open reminder, when the owner wants that. "
        "Three to seven, each one thing to do, the first done in two minutes."
    ),
)
