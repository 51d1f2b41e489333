"""Translates a `Toolset` for the SDK: in-process servers, and hooks that call its gates."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

from claude_agent_sdk import (
    HookContext,
    HookInput,
    HookMatcher,
    McpSdkServerConfig,
    SdkMcpTool,
    create_sdk_mcp_server,
)
from claude_agent_sdk.types import HookEvent, HookJSONOutput
from mcp.server import Server
from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult
from mcp.types import Tool as McpTool

from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.values.agent_caller import quoted, shell_words
from ollim_bot.kernel.values.ports import Refusal, Tool, ToolCall, Toolset
from ollim_bot.kernel.values.tool_patterns import OWN_SERVERS

MOST_COMMANDS = 20
_LONGEST_RUN = 10.0
_LONGEST_OUTPUT = 2000
# A character takes at most four bytes.
_KEPT_BYTES = 4 * _LONGEST_OUTPUT + 4


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs on the `PATH` of `environment`, seen from `folder`."""

    environment: Mapping[str, str]
    folder: Path

    def words(self, command: str) -> Sequence[str] | Refusal:
        """The words of the command, of which the first is the path of a program.

        The gate reads plain words. A shell would look for aliases, functions and file names in
        them; quoted, and begun with the path of a program, they reach that program unchanged.
        """
        words = shell_words(command)
        if not words:
            return Refusal("This is not one plain command, so it was not run.")
        name = words[0]
        if "/" in name:
            name = os.path.join(self.folder, name)
        program = shutil.which(name, path=self.environment.get("PATH", os.defpath))
        if program is None:
            return Refusal(f"There is no program `{words[0]}` here, so nothing was run.")
        return (program, *words[1:])

    async def run(self, words: Sequence[str]) -> str:
        """The output of the program, cut, with a note in brackets if it failed."""
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                cwd=self.folder,
                env=self.environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as refused:
            return f"[could not be run: {refused}]"
        output = bytearray()
        try:
            async with asyncio.timeout(_LONGEST_RUN):
                # All output is read: an unread pipe would stop the program.
                assert process.stdout is not None
                while part := await process.stdout.read(65536):
                    output += part[: max(0, _KEPT_BYTES - len(output))]
                code = await process.wait()
        except TimeoutError:
            return f"{_shown(output)}[stopped after {_LONGEST_RUN:.0f} seconds]"
        finally:
            # Also what the program has started and left running.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        return _shown(output) + (f"[failed with exit code {code}]" if code else "")


def _shown(output: bytearray) -> str:
    text = output.decode("utf-8", "replace").strip()
    if len(text) > _LONGEST_OUTPUT:
        text = f"{text[:_LONGEST_OUTPUT]}\n[cut after {_LONGEST_OUTPUT} characters]"
    return f"{text}\n" if text else ""


# A gate may wait for a person; after this time it refuses.
_LONGEST_GATE = 24 * 60 * 60.0

# If a hook allowed these, the engine would not check the path itself. Left to the engine, it checks
# the path again, so that a link placed there after our gate had looked opens nothing.
_LEFT_TO_THE_ENGINE = frozenset({"Read", "Glob", "Grep"})

# A fence or an address that stands behind this many characters of a result is not noted.
_LONGEST_RESULT = 1_000_000

_RAN_COMMANDS = "The commands in the text of the skill were run, with these results:"

_logger = logging.getLogger(__name__)


def in_process_servers(toolset: Toolset) -> dict[str, McpSdkServerConfig]:
    servers = {}
    for name, tools in toolset.servers.items():
        make = create_sdk_mcp_server if name in OWN_SERVERS else _server_of_owner
        servers[name] = make(name, tools=[_sdk_tool(tool) for tool in tools])
    return servers


def definitions(toolset: Toolset) -> Sequence[object]:
    """All that the model is told of the tools in process, to be compared."""
    return [
        (server, tool.name, tool.description, tool.schema)
        for server, tools in toolset.servers.items()
        for tool in tools
    ]


def _server_of_owner(name: str, tools: Sequence[SdkMcpTool[Any]]) -> McpSdkServerConfig:
    """Like the SDK's own, but the arguments are not checked against the schemas.

    A schema of a stranger can take hours to check, or name others to be fetched. The tool server
    checks its arguments itself.
    """
    handlers = {tool.name: tool.handler for tool in tools}
    listed = [
        McpTool.model_validate(
            {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
        )
        for tool in tools
    ]

    async def list_tools(_: object, __: object) -> ListToolsResult:
        return ListToolsResult(tools=listed)

    async def call_tool(_: object, call: CallToolRequestParams) -> CallToolResult:
        run = handlers.get(call.name)
        answer = (
            _content(f"There is no tool {call.name}.", is_error=True)
            if run is None
            else await run(call.arguments or {})
        )
        return CallToolResult.model_validate(
            {"content": answer["content"], "isError": answer["is_error"]}
        )

    server = Server(name, on_list_tools=list_tools, on_call_tool=call_tool)
    return McpSdkServerConfig(type="sdk", name=name, instance=server)


def _sdk_tool(tool: Tool) -> SdkMcpTool[Any]:
    async def run(arguments: Mapping[str, object]) -> dict[str, Any]:
        try:
            answer = await tool.run(arguments)
        except OllimError as told:
            return _content(str(told), is_error=True)
        except Exception:  # the model must be told of any failure of a tool
            _logger.exception("The tool %s failed", tool.name)
            return _content(f"{tool.name} failed. Do not try it again now.", is_error=True)
        return _content(answer.text, is_error=answer.is_error)

    # Without both of these keys, the SDK reads a schema as a list of parameters.
    schema = {"type": "object", "properties": {}, **tool.schema}
    return SdkMcpTool(tool.name, tool.description, schema, run)


def _content(text: str, *, is_error: bool) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "is_error": is_error}


def hooks(
    toolset: Toolset, refused: MutableMapping[str, str], programs: Programs
) -> dict[HookEvent, list[HookMatcher]]:
    """The hooks that call `gate` and `after_call` around each call, and `may_end` at each end.

    `refused` receives the reason of each refused call, by the id of the call. An allowed command is
    run by its program from `programs`, with exactly the words that the gate judged. The commands of
    a skill are run too, and the agent is given their results along with the skill.
    """

    async def before_call(call: HookInput, _: str | None, __: HookContext) -> HookJSONOutput:
        assert call["hook_event_name"] == "PreToolUse"
        tool, given = call["tool_name"], call["tool_input"]
        verdict = await _verdict(toolset, _call(call))
        if verdict is None and tool == "Bash":
            words = await asyncio.to_thread(programs.words, str(given.get("command", "")))
            if not isinstance(words, Refusal):
                return _decision("allow", updatedInput={**given, "command": quoted(words)})
            verdict = words
        if verdict is None and tool in _LEFT_TO_THE_ENGINE:
            return {}
        if verdict is None:
            results = await _results_of_commands(toolset, _call(call), programs)
            return _decision("allow", additionalContext=results)
        refused[call["tool_use_id"]] = verdict.reason
        return _decision("deny", verdict.reason)

    async def after_call(call: HookInput, _: str | None, __: HookContext) -> HookJSONOutput:
        try:
            # The texts in the result, in their order, without the names of its fields.
            result = call.get("tool_response", call.get("error", ""))
            await toolset.after_call(_call(call), "\n".join(_texts_in(result))[:_LONGEST_RESULT])
        except Exception:  # the agent may not go on with a result that was not noted
            _logger.exception("A result could not be noted")
            return {"continue_": False, "stopReason": "A result could not be noted."}
        return {}

    async def before_end(_: HookInput, __: str | None, ___: HookContext) -> HookJSONOutput:
        try:
            reason = await toolset.may_end()
        except Exception:  # a failing check must not keep a turn from ending
            _logger.exception("Whether the turn may end could not be found out")
            reason = None
        return {"decision": "block", "reason": reason} if reason else {}

    return {
        "PreToolUse": [HookMatcher(hooks=[before_call], timeout=_LONGEST_GATE, on_failure="block")],
        "PostToolUse": [HookMatcher(hooks=[after_call], on_failure="block")],
        "PostToolUseFailure": [HookMatcher(hooks=[after_call], on_failure="block")],
        "Stop": [HookMatcher(hooks=[before_end], timeout=_LONGEST_GATE)],
    }


def _call(hook: Mapping[str, Any]) -> ToolCall:
    # Never empty for a call of a subagent, so that its limits are looked up.
    subagent = str(hook.get("agent_type") or "a subagent") if "agent_id" in hook else ""
    return ToolCall(hook["tool_name"], hook["tool_input"], subagent)


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from chain.from_iterable(map(_texts_in, value.values()))
    elif isinstance(value, list | tuple):
        yield from chain.from_iterable(map(_texts_in, value))


async def _verdict(toolset: Toolset, call: ToolCall) -> Refusal | None:
    try:
        return await toolset.gate(call)
    except Exception:  # a gate that fails must refuse
        _logger.exception("The gate failed at a call of %s", call.tool)
        return Refusal(f"{call.tool} could not be checked, so it was not run.")


async def _results_of_commands(toolset: Toolset, call: ToolCall, programs: Programs) -> str:
    """Run the commands of a skill, each as if the agent had called `Bash` with it."""
    commands = await toolset.commands_of(call)
    results = [
        f"`{command}`:\n{await _result(toolset, call, command, programs)}"
        for command in commands[:MOST_COMMANDS]
    ]
    if len(commands) > MOST_COMMANDS:
        results.append(f"[the others were not run: at most {MOST_COMMANDS} are]")
    return "\n\n".join([_RAN_COMMANDS, *results]) if results else ""


async def _result(toolset: Toolset, call: ToolCall, command: str, programs: Programs) -> str:
    as_call = replace(call, tool="Bash", arguments={"command": command})
    if refusal := await _verdict(toolset, as_call):
        return f"[refused: {refusal.reason}]"
    words = await asyncio.to_thread(programs.words, command)
    if isinstance(words, Refusal):
        return f"[refused: {words.reason}]"
    result = await programs.run(words)
    await toolset.after_call(as_call, result)
    return result


def _decision(verdict: str, reason: str = "", **more: object) -> HookJSONOutput:
    output = {
        "hookEventName": "PreToolUse",
        "permissionDecision": verdict,
        "permissionDecisionReason": reason,
        **{name: value for name, value in more.items() if value},
    }
    return cast(HookJSONOutput, {"hookSpecificOutput": output})
