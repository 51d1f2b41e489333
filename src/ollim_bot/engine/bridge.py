"""A `Toolset` in the engine's own terms: in-process servers, and the hooks that ask its gates."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
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

from ollim_bot.agent import Refusal, Tool, ToolCall, Toolset
from ollim_bot.domain.shell_words import quoted, shell_words
from ollim_bot.errors import OllimError

# A gate may be waiting for a person. One that takes longer than this refuses.
_LONGEST_GATE = 24 * 60 * 60.0

# If we allowed these, the engine would not check the path itself. Left to it, it looks again where
# the path leads, so that a link that was put there after our gate had looked opens nothing.
_LEFT_TO_THE_ENGINE = frozenset({"Read", "Glob", "Grep"})

_logger = logging.getLogger(__name__)


def in_process_servers(toolset: Toolset) -> dict[str, McpSdkServerConfig]:
    return {name: _server(name, tools) for name, tools in toolset.servers.items()}


def _server(name: str, tools: Sequence[Tool]) -> McpSdkServerConfig:
    return create_sdk_mcp_server(name, tools=[_sdk_tool(tool) for tool in tools])


def _sdk_tool(tool: Tool) -> SdkMcpTool[Any]:
    async def run(arguments: Mapping[str, object]) -> dict[str, Any]:
        try:
            answer = await tool.run(arguments)
        except OllimError as told:
            return _content(str(told), is_error=True)
        except Exception:  # the model must hear of it, whatever a tool raised
            _logger.exception("The tool %s failed", tool.name)
            return _content(f"{tool.name} failed. Do not try it again now.", is_error=True)
        return _content(answer.text, is_error=answer.is_error)

    # Without both of these keys, the SDK takes a schema for a list of parameters.
    schema = {"type": "object", "properties": {}, **tool.schema}
    return SdkMcpTool(tool.name, tool.description, schema, run)


def _content(text: str, *, is_error: bool) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "is_error": is_error}


def hooks(
    toolset: Toolset, refused: MutableMapping[str, str], programs: Programs
) -> dict[HookEvent, list[HookMatcher]]:
    """The gate before every call, and the question before every end.

    The reason of each refused call is left in `refused`, by the id of the call. A command that is
    let through is run by its program from `programs`, with exactly the words that were judged.
    """

    async def before_call(call: HookInput, _: str | None, __: HookContext) -> HookJSONOutput:
        assert call["hook_event_name"] == "PreToolUse"
        tool, given = call["tool_name"], call["tool_input"]
        verdict = await _verdict(toolset, call)
        if verdict is None and tool == "Bash":
            command = await asyncio.to_thread(programs.as_judged, str(given.get("command", "")))
            if not isinstance(command, Refusal):
                return _decision("allow", arguments={**given, "command": command})
            verdict = command
        if verdict is None:
            return {} if tool in _LEFT_TO_THE_ENGINE else _decision("allow")
        refused[call["tool_use_id"]] = verdict.reason
        return _decision("deny", verdict.reason)

    async def before_end(_: HookInput, __: str | None, ___: HookContext) -> HookJSONOutput:
        reason = await _what_is_missing(toolset)
        return {"decision": "block", "reason": reason} if reason else {}

    return {
        "PreToolUse": [HookMatcher(hooks=[before_call], timeout=_LONGEST_GATE, on_failure="block")],
        "Stop": [HookMatcher(hooks=[before_end], timeout=_LONGEST_GATE)],
    }


async def _verdict(toolset: Toolset, call: Mapping[str, Any]) -> Refusal | None:
    name = call["tool_name"]
    try:
        return await toolset.gate(ToolCall(name, call["tool_input"], "agent_id" in call))
    except Exception:  # a gate that cannot tell is a closed one
        _logger.exception("The gate failed at a call of %s", name)
        return Refusal(f"{name} could not be checked, so it was not run.")


async def _what_is_missing(toolset: Toolset) -> str | None:
    try:
        return await toolset.may_end()
    except Exception:  # a turn must be able to end
        _logger.exception("Whether the turn may end could not be found out")
        return None


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs that the agent's commands may mean: those of `path`, seen from `folder`."""

    path: str
    folder: Path

    def as_judged(self, command: str) -> str | Refusal:
        """The command so that no shell changes a word of it, nor what its first word means.

        The gate reads plain words. A shell would look for aliases, functions and file names in
        them, as its own settings and the user's say; quoted, and begun with the path of a program,
        they reach that program as they were judged.
        """
        words = shell_words(command)
        if not words:
            return Refusal("This is not one plain command, so it was not run.")
        program = self._find(words[0])
        if program is None:
            return Refusal(f"There is no program `{words[0]}` here, so nothing was run.")
        return quoted((program, *words[1:]))

    def _find(self, name: str) -> str | None:
        if "/" in name:
            name = os.path.join(self.folder, name)
        return shutil.which(name, path=self.path)


def _decision(
    verdict: str, reason: str = "", *, arguments: Mapping[str, object] | None = None
) -> HookJSONOutput:
    output: dict[str, object] = {
        "hookEventName": "PreToolUse",
        "permissionDecision": verdict,
        "permissionDecisionReason": reason,
    }
    if arguments is not None:
        output["updatedInput"] = dict(arguments)
    return cast(HookJSONOutput, {"hookSpecificOutput": output})
