"""The options and the environment that the engine is started with."""

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
from ollim_bot.engine.launcher import VARIABLES
from ollim_bot.environment import child_environment, python_places, search_path
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

_ENGINE_VARIABLES = {
    # A provider that does not answer is noticed within a minute and abandoned within three.
    "API_TIMEOUT_MS": "50000",
    "CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS": "25000",
    "CLAUDE_CODE_MAX_RETRIES": "2",
    # Otherwise the model may have to search for our tools, which costs a request.
    "ENABLE_TOOL_SEARCH": "false",
    # A turn ends when the engine reports that it is idle.
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
    # A prompt is recorded before it is sent to the model, so that a record without it is proof.
    "CLAUDE_CODE_EAGER_FLUSH": "1",
    # Tasks and memories of the engine itself would be lost with its process.
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_DISABLE_CRON": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_WORKFLOWS": "1",
    # Files named in these notes and mentions would be read without a hook.
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1",
    "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS": "1",
    # Only the subagents of the session: none of the engine, no copy of the agent, none below one.
    "CLAUDE_AGENT_SDK_DISABLE_BUILTIN_AGENTS": "1",
    "CLAUDE_CODE_FORK_SUBAGENT": "0",
    "CLAUDE_CODE_MAX_SUBAGENT_SPAWN_DEPTH": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
}

_NO_RECORD: Mapping[str, str | None] = {"no-session-persistence": None}
_NO_PROXY = ("NO_PROXY", "no_proxy")
_THIS_MACHINE = ("127.0.0.1", "localhost")

# Settings of the commands that the agent calls; none is a secret.
_OF_OUR_COMMANDS = (
    *("OLLIM_DATA_DIR", "OLLIM_TIMEZONE", "OLLIM_USER_NAME", "OLLIM_BOT_NAME", "OLLIM_MODEL"),
    *("OLLIM_LOG", "OLLIM_LOG_FORMAT", "OLLIM_WEB_PORT", "OLLIM_WEB_HOSTS"),
    *("GOOGLE_API_URL", "GOOGLE_TOKEN_URL", "GOOGLE_AUTH_URL"),
)


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


def engine_variables(
    given: Mapping[str, str], inherited: Mapping[str, str], commands: Path
) -> dict[str, str]:
    """The environment of the engine and of the programs that the agent runs.

    `commands` is the folder where the agent finds `ollim-bot`; `given` has the variables of the
    provider and of `ollim-bot`. No value refers to the current folder.
    """
    path = ":".join(filter(None, [str(commands), search_path(inherited.get("PATH", ""))]))
    # The variables that exclude this machine, with the built-in model, from the proxy.
    named = ",".join(inherited.get(name, "") for name in _NO_PROXY)
    hosts = [host.strip() for host in named.split(",") if host.strip()]
    # A lone star means all hosts; in a list, it would mean none.
    all_hosts = hosts if "*" in hosts else [*hosts, *_THIS_MACHINE]
    return {
        **child_environment(inherited, *VARIABLES, *_OF_OUR_COMMANDS),
        **_ENGINE_VARIABLES,
        **dict.fromkeys(_NO_PROXY, ",".join(dict.fromkeys(all_hosts))),
        **python_places(inherited, os.getcwd()),
        "PATH": path,
        **given,
    }


def _thinking(thinking: Thinking) -> ThinkingConfig:
    if thinking == "off":
        return {"type": "disabled"}
    if isinstance(thinking, int):
        return {"type": "enabled", "budget_tokens": thinking, "display": "summarized"}
    return {"type": "adaptive", "display": "summarized"}
