"""The options that the engine is started with."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from claude_agent_sdk import AgentDefinition, ClaudeAgentOptions
from claude_agent_sdk.types import McpServerConfig, ThinkingConfig

from ollim_bot.domain.agent_caller import CALLED_BY, CONVERSATION
from ollim_bot.domain.runs import Subagent, Subagents
from ollim_bot.domain.runtime_config import Thinking
from ollim_bot.engine.bridge import hooks, in_process_servers
from ollim_bot.engine.commands import Programs
from ollim_bot.ports import SessionSpec, Toolset

# One line of the engine's output is one message; an answer may be long.
_LONGEST_MESSAGE = 16 * 1024 * 1024

_SETTINGS = {
    # The command lines of a skill would run without a hook.
    "disableSkillShellExecution": True,
    "attribution": {"commit": "", "pr": ""},
}

# A second check behind the gate: these rules hold even if a hook allows a call.
_NEVER = (
    "Read(./state/**)",
    "Read(./.env*)",
    "Read(./.git/**)",
    "Read(./mcp.json)",
    "Edit(./state/**)",
    "Edit(./.env*)",
    "Edit(./.git/**)",
    "Edit(./.claude/**)",
    "Edit(./tool-policy.yaml)",
    "Edit(./mcp.json)",
)

_NO_RECORD: Mapping[str, str | None] = {"no-session-persistence": None}


def options_for(
    spec: SessionSpec,
    toolset: Toolset,
    *,
    prompt: Path,
    environment: Mapping[str, str],
    refused: MutableMapping[str, str],
    cli: Path | None = None,
) -> ClaudeAgentOptions:
    """The options of a process. No rule allows a tool in advance: each call needs the gate.

    `prompt` is the file with the system prompt, which the engine reads once, at the start.
    """
    servers: dict[str, McpServerConfig] = {**in_process_servers(toolset)}
    subagents = spec.subagents or Subagents()
    variables = {**environment, CALLED_BY: spec.occurrence or CONVERSATION}
    programs = Programs(variables, spec.working_directory)
    # The engine itself reads the files of subagents; a rule keeps it from offering one.
    hidden = (f"Agent({name})" for name in subagents.hidden)
    return ClaudeAgentOptions(
        # Without a snapshot, a resumed session gets the present prompt. The SDK cannot say so
        # together with a file, but the preset can, and the file replaces the preset.
        system_prompt={"type": "preset", "preset": "claude_code", "snapshot": False},
        extra_args={"system-prompt-file": str(prompt), **(_NO_RECORD if spec.is_bare else {})},
        cwd=spec.working_directory,
        add_dirs=list(spec.readable),
        resume=spec.resume or spec.branch_of,
        fork_session=spec.resume is None and spec.branch_of is not None,
        session_id=None if spec.resume else spec.begin,
        model=spec.model,
        thinking=_thinking(spec.thinking),
        tools=list(toolset.builtin),
        skills=[skill.name for skill in spec.skills],
        mcp_servers=servers,
        strict_mcp_config=True,
        hooks=hooks(toolset, refused, programs),
        permission_mode="dontAsk",
        setting_sources=[] if spec.is_bare else ["project"],
        settings=json.dumps({**_SETTINGS, "permissions": {"deny": [*_NEVER, *hidden]}}),
        agents={name: _definition(one) for name, one in subagents.known.items()},
        include_partial_messages=True,
        max_buffer_size=_LONGEST_MESSAGE,
        # The SDK adds these to the whole environment of the bot. An empty one is left out later.
        env={**dict.fromkeys(os.environ, ""), **variables},
        cli_path=cli,
    )


def _definition(subagent: Subagent) -> AgentDefinition:
    """A definition that takes precedence over the file of the same name.

    It has only the names of tools, which the engine lists in every request; the gate limits what
    they are called with.
    """
    names = None if subagent.tools is None else dict.fromkeys(each.tool for each in subagent.tools)
    return AgentDefinition(
        subagent.description,
        subagent.instructions,
        None if names is None else list(names),
        model=subagent.model or "inherit",
    )


def _thinking(thinking: Thinking) -> ThinkingConfig:
    if thinking == "off":
        return {"type": "disabled"}
    if isinstance(thinking, int):
        return {"type": "enabled", "budget_tokens": thinking, "display": "summarized"}
    return {"type": "adaptive", "display": "summarized"}
