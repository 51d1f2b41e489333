"""Assembles the tools of one session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence

from ollim_bot.kernel.store.skill_files import skill_at
from ollim_bot.kernel.store.steps import note_reading
from ollim_bot.kernel.tools.guards import NoteMarks
from ollim_bot.kernel.tools.reading import reading_in
from ollim_bot.kernel.tools.registry import ENGINE_TOOLS, OWN_TOOLS, changes_something
from ollim_bot.kernel.tools.tool_context import ToolContext
from ollim_bot.kernel.values.ports import Gate, Refusal, Tool, ToolCall, Toolset
from ollim_bot.kernel.values.runs import NAME_ARGUMENT, STARTING, thing_looked_at
from ollim_bot.kernel.values.shared_files import JobFolder
from ollim_bot.kernel.values.skills import Skill
from ollim_bot.kernel.values.tool_patterns import text_argument

BUILTIN = tuple(tool.name for tool in ENGINE_TOOLS if tool.is_offered)
MOST_SENT_BACK = 2

_OWES_A_REPORT = (
    "You must call `report_updates` before you end: say in one or two sentences what the main "
    "session should know."
)


def toolset(context: ToolContext, gate: Gate) -> Toolset:
    """The same tools for every kind of run, so that a forked history keeps its prompt cache.

    `gate` judges every call. Our own tools then refuse what the run may not do.
    """

    marks = NoteMarks(context)

    async def noted(call: ToolCall) -> Refusal | None:
        refusal = await gate(call)
        refusal = refusal or await marks.begin(call)
        if refusal is not None:
            return refusal
        context.run.tools_used.append(call.tool)
        if thing := thing_looked_at(call.tool, text_argument(call.arguments, "command")):
            context.run.looked_at.append(thing)
        if call.tool in STARTING:
            context.run.subagents.append(text_argument(call.arguments, NAME_ARGUMENT))
        context.run.has_changed_something |= changes_something(call.tool)
        return None

    async def may_end() -> str | None:
        run = context.run
        if not run.owes_report or run.times_sent_back >= MOST_SENT_BACK:
            return None
        run.times_sent_back += 1
        return _OWES_A_REPORT

    async def commands_of(call: ToolCall) -> Sequence[str]:
        if call.tool != "Skill":
            return ()
        name = text_argument(call.arguments, "skill")
        skill = await asyncio.to_thread(skill_at, context.root / JobFolder.SKILLS, name)
        return skill.commands if isinstance(skill, Skill) else ()

    async def after_call(call: ToolCall, result: str) -> None:
        await marks.end(call)
        run, reading = context.run, await reading_in(context.store, context.root, call, result)
        if reading is None:
            return
        # Before the agent sees the result, the run is tainted by it. That is committed, so that
        # neither a restart nor a branch of the session loses it.
        before, run.taint = run.taint, run.taint.after(reading)
        if run.taint.sources != before.sources:
            await context.store.transact(lambda tx: note_reading(tx, run))

    own = {
        server: [tool.bound_to(context) for tool in tools] for server, tools in OWN_TOOLS.items()
    }
    servers = _OfferedTools(own, context.servers)
    return Toolset(servers, BUILTIN, noted, may_end, after_call, commands_of)


class _OfferedTools(Mapping[str, Sequence[Tool]]):
    """Our tools, then those of the owner's servers as they are when they are looked up."""

    def __init__(
        self, own: Mapping[str, Sequence[Tool]], owners: Callable[[], Mapping[str, Sequence[Tool]]]
    ) -> None:
        self._own = own
        self._owners = owners

    def __getitem__(self, server: str) -> Sequence[Tool]:
        return self._own[server] if server in self._own else self._owners()[server]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._own, *self._owners())))

    def __len__(self) -> int:
        return sum(1 for _ in self)
