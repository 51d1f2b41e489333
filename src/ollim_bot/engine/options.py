"""How the engine is started: everything that it is told on its command line and around it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from claude_agent_sdk import ClaudeAgentOptions
from claude_agent_sdk.types import McpServerConfig, ThinkingConfig

from ollim_bot.agent import SessionSpec, Toolset
from ollim_bot.domain.agent_caller import CALLED_BY, CONVERSATION
from ollim_bot.domain.runtime_config import Thinking
from ollim_bot.engine.bridge import Programs, hooks, in_process_servers
from ollim_bot.environment import python_places, search_path

# One line of the engine's output is one message; an answer may be long.
_LONGEST_MESSAGE = 16 * 1024 * 1024

_SETTINGS = {
    # A skill's command lines would be run without any hook being asked.
    "disableSkillShellExecution": True,
    "attribution": {"commit": "", "pr": ""},
    # A second wall behind the gate: these hold even where a hook lets a call through.
    "permissions": {
        "deny": [
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
        ]
    },
}

_ENGINE_VARIABLES = {
    # A provider that does not answer is noticed within a minute and given up within three.
    "API_TIMEOUT_MS": "50000",
    "CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS": "25000",
    "CLAUDE_CODE_MAX_RETRIES": "2",
    # Else our tools may hide behind a search, which costs the model a request.
    "ENABLE_TOOL_SEARCH": "false",
    # A turn is over when the engine says that it is idle.
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
    # A prompt is written down before the model hears of it, so that a record without it is proof.
    "CLAUDE_CODE_EAGER_FLUSH": "1",
    # What is promised or remembered by the engine itself dies with its process.
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_DISABLE_CRON": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_WORKFLOWS": "1",
    # The files that these notes and mentions name would be read without any hook being asked.
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1",
    "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
}

_NO_PROXY = ("NO_PROXY", "no_proxy")
_THIS_MACHINE = ("127.0.0.1", "localhost")

_OUR_SECRETS = re.compile(r"(DISCORD|WEBHOOK|GOOGLE|OLLIM)_.*(TOKEN|SECRET|KEY|PASSWORD)")


def options_for(
    spec: SessionSpec,
    toolset: Toolset,
    *,
    prompt: Path,
    environment: Mapping[str, str],
    refused: MutableMapping[str, str],
    cli: Path | None = None,
) -> ClaudeAgentOptions:
    """No rule allows a tool beforehand, so that a call is made only when the gate lets it.

    `prompt` is the file with the system prompt, which is read once, at the start.
    """
    servers: dict[str, McpServerConfig] = {**in_process_servers(toolset)}
    return ClaudeAgentOptions(
        # Without a snapshot, a resumed session gets the prompt of today. The SDK has no way to say
        # so together with a file, but the preset says it, and the file takes the preset's place.
        system_prompt={"type": "preset", "preset": "claude_code", "snapshot": False},
        extra_args={"system-prompt-file": str(prompt)},
        cwd=spec.working_directory,
        add_dirs=list(spec.readable),
        resume=spec.resume or spec.branch_of,
        fork_session=spec.resume is None and spec.branch_of is not None,
        session_id=None if spec.resume else spec.begin,
        model=spec.model,
        thinking=_thinking(spec.thinking),
        tools=list(toolset.builtin),
        mcp_servers=servers,
        strict_mcp_config=True,
        hooks=hooks(toolset, refused, _programs(environment, spec.working_directory)),
        permission_mode="dontAsk",
        setting_sources=["project"],
        settings=json.dumps(_SETTINGS),
        include_partial_messages=True,
        max_buffer_size=_LONGEST_MESSAGE,
        env={**environment, CALLED_BY: spec.occurrence or CONVERSATION},
        cli_path=cli,
    )


def _programs(environment: Mapping[str, str], folder: Path) -> Programs:
    return Programs(environment.get("PATH") or os.environ.get("PATH", os.defpath), folder)


def child_environment(
    given: Mapping[str, str], inherited: Mapping[str, str], commands: Path
) -> dict[str, str]:
    """What the engine gets on top of the environment of this process, which it inherits.

    Our secrets are emptied, since they cannot be taken away. `commands` is the folder where the
    agent finds `ollim-bot`; `given` is the provider's, and what `ollim-bot` has to know. Nothing
    in it leads into the folder that happens to be current.
    """
    emptied = {name: "" for name in inherited if _OUR_SECRETS.match(name)}
    path = ":".join(filter(None, [str(commands), search_path(inherited.get("PATH", ""))]))
    zone = {"TZ": given["OLLIM_TIMEZONE"]} if "OLLIM_TIMEZONE" in given else {}
    return {
        **emptied,
        **_ENGINE_VARIABLES,
        **_without_proxy(inherited),
        **python_places(inherited, os.getcwd()),
        "PATH": path,
        **zone,
        **given,
    }


def _without_proxy(inherited: Mapping[str, str]) -> dict[str, str]:
    """The built-in model is on this machine, where no proxy could reach it."""
    named = ",".join(inherited.get(name, "") for name in _NO_PROXY)
    hosts = [host.strip() for host in named.split(",") if host.strip()]
    # A lone star stands for all hosts; in a list, it would stand for none.
    all_hosts = hosts if "*" in hosts else [*hosts, *_THIS_MACHINE]
    return dict.fromkeys(_NO_PROXY, ",".join(dict.fromkeys(all_hosts)))


def _thinking(thinking: Thinking) -> ThinkingConfig:
    if thinking == "off":
        return {"type": "disabled"}
    if isinstance(thinking, int):
        return {"type": "enabled", "budget_tokens": thinking, "display": "summarized"}
    return {"type": "adaptive", "display": "summarized"}
