"""How the engine is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ollim_bot.agent import SessionSpec, Toolset
from ollim_bot.domain.runtime_config import Thinking
from ollim_bot.domain.sessions import SessionId
from ollim_bot.engine.options import child_environment, options_for

SPEC = SessionSpec(
    "You help.",
    Path("/data"),
    resume=SessionId("abc"),
    model="haiku",
    readable=(Path("/docs"),),
)


def test_a_session_is_started_as_it_is_described() -> None:
    options = options_for(SPEC, Toolset(builtin=("Read",)), environment={"A": "b"}, refused={})
    assert options.system_prompt == {"type": "custom", "prompt": "You help.", "snapshot": False}
    assert (options.cwd, options.add_dirs) == (Path("/data"), [Path("/docs")])
    assert (options.resume, options.model) == ("abc", "haiku")
    assert (options.tools, options.env) == (["Read"], {"A": "b"})


def test_nothing_is_allowed_but_by_the_gate() -> None:
    options = options_for(SPEC, Toolset(), environment={}, refused={})
    assert options.permission_mode == "dontAsk"
    assert options.allowed_tools == []
    assert options.hooks is not None
    (gate,) = options.hooks["PreToolUse"]
    assert (gate.matcher, gate.on_failure) == (None, "block")


def test_only_the_project_is_asked_for_its_settings() -> None:
    options = options_for(SPEC, Toolset(), environment={}, refused={})
    assert options.setting_sources == ["project"]
    assert options.strict_mcp_config
    assert json.loads(options.settings or "")["disableSkillShellExecution"] is True


@pytest.mark.parametrize(
    ("thinking", "kind"),
    [("off", "disabled"), ("adaptive", "adaptive"), (4000, "enabled")],
)
def test_thinking_is_as_it_was_chosen(thinking: Thinking, kind: str) -> None:
    spec = SessionSpec("", Path("/data"), thinking=thinking)
    options = options_for(spec, Toolset(), environment={}, refused={})
    assert options.thinking is not None
    assert options.thinking["type"] == kind


def test_our_secrets_are_emptied_and_the_providers_stay() -> None:
    inherited = {"DISCORD_TOKEN": "x", "WEBHOOK_SECRET": "x", "ANTHROPIC_API_KEY": "y", "LANG": "C"}
    environment = child_environment({"ANTHROPIC_BASE_URL": "z"}, inherited, Path("/bin"))
    assert (environment["DISCORD_TOKEN"], environment["WEBHOOK_SECRET"]) == ("", "")
    assert environment["ANTHROPIC_BASE_URL"] == "z"
    assert not {"ANTHROPIC_API_KEY", "LANG"} & environment.keys()


def test_the_agent_finds_our_command_and_the_owners_day() -> None:
    given = {"OLLIM_TIMEZONE": "Asia/Tokyo"}
    environment = child_environment(given, {"PATH": "/usr/bin"}, Path("/opt/bin"))
    assert environment["PATH"] == "/opt/bin:/usr/bin"
    assert environment["TZ"] == environment["OLLIM_TIMEZONE"] == "Asia/Tokyo"
