"""`ollim-bot mcp`: the owner's own tool servers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import monotonic

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.completions import Completion
from ollim_bot.cli.data import Data, note, open_data, writable
from ollim_bot.cli.framework import (
    Flags,
    Given,
    Verb,
    columns,
    json_flag,
    plain,
    print_json,
    run_verb,
    title,
)
from ollim_bot.cli.unknown_words import no_such
from ollim_bot.domain.text import counted
from ollim_bot.domain.tool_servers import (
    ServerSpec,
    ServerState,
    ToolDefinition,
    ToolServerRecord,
    in_words,
)
from ollim_bot.errors import OllimError, ToolServerFailed, WrongInput
from ollim_bot.store.server_file import read_servers, remove_server

# A program may have to be fetched first, which only a person waits for.
_PATIENCE = 60.0
_NONE = (
    "There are no tool servers. Name them in mcp.json in the data directory; "
    "docs/tool-servers.md shows how."
)


def run(words: Sequence[str], caller: Caller) -> None:
    run_verb("mcp", _VERBS, words, caller)


def _list(given: Given, caller: Caller) -> None:
    data = open_data(caller)
    problems: list[str] = []
    record = _record(data, _specs(data, problems))
    if "json" in given:
        servers = [_as_json(name, state) for name, state in sorted(record.servers.items())]
        print_json({"servers": servers, "problems": problems})
        return
    for name, state in sorted(record.servers.items()):
        print("\n".join(_shown(name, state)))
    if not record.servers:
        print(_NONE)
    for problem in problems:
        note(problem)


def _approve(given: Given, caller: Caller) -> None:
    name = str(given["name"])
    data = open_data(caller)
    specs = _specs(data)
    spec = _known(name, specs)
    print(f"{name} is {plain(spec.in_words)}", flush=True)
    if "yes" not in given and not sys.stdin.isatty():
        raise WrongInput("Whether to approve it can only be asked in a terminal. Or say --yes.")
    found, _ = _asked(spec, data, caller)
    state = _record(data, specs).of(name).started().listed(found)
    _print_tools(state.waiting, found)
    if "yes" not in given and not _is_confirmed():
        print("Nothing was changed.")
        return

    def approved(record: ToolServerRecord) -> ToolServerRecord:
        known = record.written(specs)
        return known.holding(name, known.of(name).started().listed(found).approving())

    with writable(data) as changed, changed.database() as database:
        database.run(lambda tx: tx.tool_servers.change(approved))
    number = len(approved(_record(data, specs)).of(name).offered)
    print(f"Approved. The agent has {counted(number, 'tool')} of {name} from the next message on.")


def _test(given: Given, caller: Caller) -> None:
    name = str(given["name"])
    data = open_data(caller)
    specs = _specs(data)
    found, seconds = _asked(_known(name, specs), data, caller)
    state = _record(data, specs).of(name).listed(found)
    print(f"{name} answered in {seconds:.1f} s, with {counted(len(found), 'tool')}.")
    _print_tools(state.waiting, found)
    if state.waiting or not state.may_start:
        print(f"`ollim-bot mcp approve {name}` lets the agent use it as it is now.")


def _remove(given: Given, caller: Caller) -> None:
    name = str(given["name"])
    data = open_data(caller)
    if name not in _record(data, _specs(data)).servers:
        raise _unknown(name, _specs(data))
    with writable(data) as changed:
        remove_server(changed.paths, name)
        with changed.database() as database:
            database.run(lambda tx: tx.tool_servers.change(lambda known: known.without(name)))
    print(f"{name} is removed. The agent has its tools no more from the next message on.")


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
    return record.written(specs)


def _known(name: str, specs: Mapping[str, ServerSpec]) -> ServerSpec:
    if name not in specs:
        raise _unknown(name, specs)
    return specs[name]


def _unknown(name: str, specs: Mapping[str, ServerSpec]) -> OllimError:
    return no_such(f"There is no tool server `{name}`.", name, specs, "ollim-bot mcp list")


def _asked(spec: ServerSpec, data: Data, caller: Caller) -> tuple[Sequence[ToolDefinition], float]:
    """The tools that the server names now, and how many seconds it took to start."""
    import asyncio

    from ollim_bot.tool_servers.connection import ServerTimeouts, open_connection

    async def ask() -> Sequence[ToolDefinition]:
        timeouts = ServerTimeouts(start=_PATIENCE)
        folder = data.paths.root
        async with open_connection(spec, folder, caller.environ, timeouts) as connection:
            return connection.tools

    began = monotonic()
    try:
        return asyncio.run(ask()), monotonic() - began
    except ToolServerFailed as failed:
        raise OllimError(f"{spec.name} {failed}") from failed


def _is_confirmed() -> bool:
    answer = input("May the agent use these tools? [y/N] ")
    return answer.strip().casefold() in ("y", "yes")


def _print_tools(waiting: Sequence[ToolDefinition], found: Sequence[ToolDefinition]) -> None:
    rows = [
        (f"  {title(each.name)}", _about(each, is_approved=each not in waiting)) for each in found
    ]
    if rows:
        print(columns(rows), flush=True)


def _about(tool: ToolDefinition, *, is_approved: bool) -> str:
    if tool.problem:
        return f"cannot be offered: it has {tool.problem}"
    return f"{title(tool.description)}{' (approved)' if is_approved else ''}"


def _shown(name: str, state: ServerState) -> Iterator[str]:
    yield f"{name}: {in_words(state)}"
    if state.shown:
        yield f"  {plain(state.shown)}"
    off = {each.definition.name for each in state.tools if each.is_off}
    rows = [(f"  {each.name}", title(each.description)) for each in state.offered]
    rows += [(f"  {each.name}", _to_approve(each.name, off)) for each in state.waiting]
    if rows:
        yield columns(rows)
    if state.question:
        yield f"  `ollim-bot mcp approve {name}` lets the agent use it."


def _to_approve(name: str, off: set[str]) -> str:
    return "has changed since you approved it, and is off" if name in off else "not approved yet"


def _as_json(name: str, state: ServerState) -> dict[str, object]:
    return {
        "name": name,
        "state": in_words(state),
        "runs": state.shown,
        "tools": [each.name for each in state.offered],
        "waiting": [each.name for each in state.waiting],
        "off": [each.definition.name for each in state.tools if each.is_off],
        "trouble": state.trouble,
    }


def _names(caller: Caller, _: Sequence[str]) -> Iterable[Completion]:
    return map(Completion, _specs(open_data(caller), []))


def _name(parser: Flags) -> None:
    about = "as `ollim-bot mcp list` shows it"
    parser.add_argument("name", metavar="NAME", help=about, completions=_names)


def _approve_flags(parser: Flags) -> None:
    _name(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")


_VERBS = {
    "list": Verb(
        "all servers of mcp.json", "ollim-bot mcp list", json_flag, _list, needs_words=False
    ),
    "approve": Verb(
        "start one, and let the agent use its tools",
        "ollim-bot mcp approve notes",
        _approve_flags,
        _approve,
    ),
    "test": Verb("start one, and show its tools", "ollim-bot mcp test notes", _name, _test),
    "remove": Verb("take one out of mcp.json", "ollim-bot mcp remove notes", _name, _remove),
}
