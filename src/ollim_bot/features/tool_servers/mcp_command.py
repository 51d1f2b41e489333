"""`ollim-bot mcp`: the owner's own tool servers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import monotonic
from typing import NamedTuple

from ollim_bot.kernel.base.errors import OllimError, ToolServerFailed, WrongInput
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.store.server_file import read_servers, remove_server
from ollim_bot.kernel.values.tool_servers import (
    ServerSpec,
    ServerState,
    ToolDefinition,
    ToolServerRecord,
    in_words,
    whole_definition,
)
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.completions import Completion
from ollim_bot.surfaces.terminal.framework import (
    JSON,
    Given,
    Noun,
    argument,
    columns,
    plain,
    print_json,
    title,
)
from ollim_bot.surfaces.terminal.printing import agrees, no_such, show
from ollim_bot.surfaces.terminal.terminal_data import Data, note, open_data, writable

# A program may have to be fetched first, which only a person waits for.
_PATIENCE = 60.0
_NONE = (
    "There are no tool servers. Name them in mcp.json in the data directory; "
    "docs/tool-servers.md shows how."
)

_MCP = Noun("mcp")
run = _MCP.run


def _names(caller: Caller, _: Sequence[str]) -> Iterable[Completion]:
    return map(Completion, _specs(open_data(caller), []))


# What an approval says beside “may be used”.
_CARE = (
    "Once the agent has read somebody else's words, a tool that asks needs your word for each "
    "call, and is refused in the background. A tool that looks goes on: what it is asked may leave."
)

_NAME = argument(
    "name", metavar="NAME", help="as `ollim-bot mcp list` shows it", completions=_names
)


@_MCP.verb(
    "the servers of mcp.json, or one with all its tools",
    "notes",
    argument("name", metavar="NAME", nargs="?", help="only this server", completions=_names),
    JSON,
)
def _list(given: Given, caller: Caller) -> None:
    data = open_data(caller)
    problems: list[str] = []
    specs = _specs(data, problems)
    servers = _record(data, specs).servers
    if "name" in given:
        name = str(given["name"])
        if name not in servers:
            raise _unknown(name, specs)
        servers = {name: servers[name]}
    # The agent reads no text of a server that the owner has not approved.
    is_owner = caller.agent is None
    if "json" in given:
        found = [
            _as_json(name, state, is_owner=is_owner) for name, state in sorted(servers.items())
        ]
        print_json({"servers": found, "problems": problems})
        return
    for name, state in sorted(servers.items()):
        show("\n".join(_shown(name, state, is_owner=is_owner)))
    if not servers:
        show(_NONE)
    for problem in problems:
        note(problem)


@_MCP.verb(
    "start one, and let the agent use its tools",
    "notes",
    _NAME,
    argument(
        "--looks",
        action="append",
        metavar="TOOL",
        help="it only looks, and what it is asked may leave; repeatable",
    ),
    argument("--asks", action="append", metavar="TOOL", help="take --looks back; repeatable"),
    argument("--yes", action="store_true", help="do not ask"),
)
def _approve(given: Given, caller: Caller) -> None:
    name = str(given["name"])
    data = open_data(caller)
    specs = _specs(data)
    spec = _known(name, specs)
    show(f"{name} is {plain(spec.in_words)}")
    if "yes" not in given and not sys.stdin.isatty():
        raise WrongInput("Whether to approve it can only be asked in a terminal. Or say --yes.")
    answer = _asked(spec, data, caller)
    looking, asking = given.get("looks", []), given.get("asks", [])
    named, overview = [each.name for each in answer.tools if not each.problem], "ollim-bot mcp list"
    if unknown := [each for each in (*looking, *asking) if each not in named]:
        raise no_such(f"{name} has no tool `{unknown[0]}`.", unknown[0], named, overview)

    def decided(state: ServerState) -> ServerState:
        listed = state.started().listed(answer.tools, anew=True)
        return listed.approving().told(looking=looking, asking=asking)

    state = _record(data, specs).of(name)
    _print_tools(state.started().listed(answer.tools, anew=True), answer, decided(state))
    show(_CARE)
    if "yes" not in given and not agrees("May the agent use these tools?"):
        show("Nothing was changed.")
        return

    machine = _machine(data)

    def approved(record: ToolServerRecord) -> ToolServerRecord:
        known = record.on(machine).written(specs)
        return known.holding(name, decided(known.of(name)))

    with writable(data) as changed, changed.database() as database:
        database.run(lambda tx: tx.tool_servers.change(approved))
    number = len(approved(_record(data, specs)).of(name).offered)
    show(f"Approved. The agent has {counted(number, 'tool')} of {name} from the next message on.")


@_MCP.verb("start one, and show its tools", "notes", _NAME)
def _test(given: Given, caller: Caller) -> None:
    name = str(given["name"])
    data = open_data(caller)
    specs = _specs(data)
    answer = _asked(_known(name, specs), data, caller)
    state = _record(data, specs).of(name).listed(answer.tools)
    number = counted(len(answer.tools), "tool")
    show(f"{name} answered in {answer.seconds:.1f} s, with {number}.")
    _print_tools(state, answer, state)
    if state.waiting or not state.may_start:
        show(f"`ollim-bot mcp approve {name}` lets the agent use it as it is now.")


@_MCP.verb("take one out of mcp.json", "notes", _NAME)
def _remove(given: Given, caller: Caller) -> None:
    name = str(given["name"])
    data = open_data(caller)
    if name not in _record(data, _specs(data)).servers:
        raise _unknown(name, _specs(data))
    with writable(data) as changed:
        remove_server(changed.paths, name)
        with changed.database() as database:
            machine = _machine(data)
            database.run(
                lambda tx: tx.tool_servers.change(lambda known: known.on(machine).without(name))
            )
    show(f"{name} is removed. From the next message on, the agent no longer has its tools.")


def _specs(data: Data, problems: list[str] | None = None) -> Mapping[str, ServerSpec]:
    """The servers of the file. Its problems go into the list, or are notes without one."""
    reading = read_servers(data.paths)
    for problem in reading.problems:
        if problems is None:
            note(problem)
        else:
            problems.append(problem)
    return reading.specs


def _record(data: Data, specs: Mapping[str, ServerSpec]) -> ToolServerRecord:
    """What is approved, with the file as it is now."""
    record = data.read(lambda tx: tx.tool_servers.get()) or ToolServerRecord()
    return record.on(_machine(data)).written(specs)


def _machine(data: Data) -> str:
    """The id of this machine, if it shares a database."""
    if data.shared is None:
        return ""
    from ollim_bot.kernel.store.standby_loader import load_standby

    return str(load_standby("machines").machine_id(data.paths))


def _known(name: str, specs: Mapping[str, ServerSpec]) -> ServerSpec:
    if name not in specs:
        raise _unknown(name, specs)
    return specs[name]


def _unknown(name: str, specs: Mapping[str, ServerSpec]) -> OllimError:
    return no_such(f"There is no tool server `{name}`.", name, specs, "ollim-bot mcp list")


class _Answer(NamedTuple):
    """The tools that a server names now, those that cannot be offered with the reasons, and how
    many seconds it took to start."""

    tools: Sequence[ToolDefinition]
    left_out: Mapping[str, str]
    seconds: float


def _asked(spec: ServerSpec, data: Data, caller: Caller) -> _Answer:
    import asyncio

    from ollim_bot.features.tool_servers.server_connection import ServerTimeouts, open_connection

    async def ask() -> tuple[Sequence[ToolDefinition], Mapping[str, str]]:
        timeouts = ServerTimeouts(start=_PATIENCE)
        async with open_connection(spec, data.paths, caller.environ, timeouts) as connection:
            return connection.tools, connection.left_out

    began = monotonic()
    try:
        return _Answer(*asyncio.run(ask()), monotonic() - began)
    except ToolServerFailed as failed:
        raise OllimError(f"{spec.name} {failed}") from failed


def _print_tools(state: ServerState, answer: _Answer, after: ServerState) -> None:
    """The tools as the server names them now, with what they are and do `after` the command."""
    does = {each.definition.name: each.in_words for each in after.usable}
    for tool in answer.tools:
        if tool.problem:
            show(f"  {title(tool.name)}: cannot be offered: it has {tool.problem}.")
        else:
            known = "" if tool in state.waiting else "approved"
            notes = ", ".join(filter(None, (known, does.get(tool.name))))
            show(_whole(tool, f" ({notes})" if notes else ""))
    for name, why in answer.left_out.items():
        show(f"  {title(name)}: cannot be offered: it has {why}.")
    sys.stdout.flush()


def _whole(tool: ToolDefinition, note: str) -> str:
    name, *lines = whole_definition(tool)
    return "\n".join([f"  {name}{note}", *(f"  {line}" for line in lines)])


def _shown(name: str, state: ServerState, *, is_owner: bool) -> Iterator[str]:
    yield f"{name}: {in_words(state)}"
    if state.shown:
        yield f"  {plain(state.shown)}"
    off = {each.definition.name for each in state.tools if each.is_off}
    if is_owner:
        tools = [(each.definition, f" ({each.in_words})") for each in state.usable]
        has_changed = "has changed since you approved it, and is off"
        tools += [
            (each, f" ({has_changed if each.name in off else 'not approved yet'})")
            for each in state.waiting
        ]
        yield from (_whole(tool, note) for tool, note in tools)
    elif state.offered:
        yield columns([(f"  {each.definition.name}", each.in_words) for each in state.usable])
    if any(each.hints is None for each in state.offered):
        yield f"  What its tools do was not asked yet: `ollim-bot mcp approve {name}` does."
    if state.question:
        yield f"  `ollim-bot mcp approve {name}` lets the agent use it."


def _as_json(name: str, state: ServerState, *, is_owner: bool) -> dict[str, object]:
    waiting = state.waiting if is_owner else ()
    shown = (*state.offered, *waiting) if is_owner else ()
    return {
        "name": name,
        "state": in_words(state),
        "runs": state.shown,
        "tools": [each.name for each in state.offered],
        "looks": [each.definition.name for each in state.usable if each.looks],
        "waiting": [each.name for each in waiting],
        "off": [each.definition.name for each in state.tools if each.is_off],
        "trouble": state.trouble,
        "definitions": [
            {"name": each.name, "description": each.description, "schema": each.schema}
            for each in shown
        ],
    }
