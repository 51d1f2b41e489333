"""How the engine is started."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from claude_agent_sdk import ClaudeAgentOptions

from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.engine.engine import ClaudeEngine
from ollim_bot.kernel.engine.launcher import engine_variables
from ollim_bot.kernel.engine.session import options_for
from ollim_bot.kernel.values.ports import SessionSpec, Toolset
from ollim_bot.kernel.values.runtime_config import Thinking

SPEC = SessionSpec(
    "You help.", Path("/data"), resume=SessionId("abc"), model="haiku", readable=(Path("/docs"),)
)


def started(
    spec: SessionSpec, tools: Toolset | None = None, environment: Mapping[str, str] | None = None
) -> ClaudeAgentOptions:
    return options_for(
        spec,
        tools or Toolset(),
        prompt=Path("/run/prompt"),
        environment=environment or {},
        refused={},
    )


def test_a_session_is_started_as_it_is_described() -> None:
    options = started(SPEC, Toolset(builtin=("Read",)), {"A": "b"})
    assert options.extra_args == {"system-prompt-file": "/run/prompt"}
    assert (options.cwd, options.add_dirs) == (Path("/data"), [Path("/docs")])
    assert (options.resume, options.model) == ("abc", "haiku")
    assert (options.tools, options.env["A"]) == (["Read"], "b")


def test_a_command_of_ours_is_told_that_the_agent_calls_it_and_in_which_run() -> None:
    assert started(SPEC).env["OLLIM_CALLED_BY"] == "conversation"
    run = replace(SPEC, occurrence="routine:a:2026-11-16T09:00:00Z")
    assert started(run).env["OLLIM_CALLED_BY"] == "routine:a:2026-11-16T09:00:00Z"


def test_only_a_session_that_begins_is_given_a_name() -> None:
    spec = replace(SPEC, begin=SessionId("new"))
    assert started(spec).session_id is None
    assert started(replace(spec, resume=None)).session_id == "new"


def test_nothing_is_allowed_but_by_the_gate() -> None:
    options = started(SPEC)
    assert options.permission_mode == "dontAsk"
    assert options.allowed_tools == []
    assert options.hooks is not None
    (gate,) = options.hooks["PreToolUse"]
    assert (gate.matcher, gate.on_failure) == (None, "block")


def test_only_the_project_is_asked_for_its_settings() -> None:
    options = started(SPEC)
    assert options.setting_sources == ["project"]
    assert options.strict_mcp_config
    assert json.loads(options.settings or "")["disableSkillShellExecution"] is True


def test_a_bare_session_has_no_settings_and_leaves_no_record() -> None:
    options = started(replace(SPEC, is_bare=True))
    assert options.setting_sources == []
    assert options.extra_args["no-session-persistence"] is None
    assert (options.tools, options.skills, options.agents, options.mcp_servers) == ([], [], {}, {})


def test_no_file_is_read_past_the_gate() -> None:
    """The engine would read files that are named in notes or mentioned in a text."""
    environment = engine_variables({}, {}, Path("/bin"))
    assert environment["CLAUDE_CODE_DISABLE_CLAUDE_MDS"] == "1"
    assert environment["CLAUDE_CODE_DISABLE_FILE_MENTIONS"] == "1"


def test_the_engine_has_a_wall_of_its_own_behind_the_gate() -> None:
    denied = json.loads(started(SPEC).settings or "")["permissions"]["deny"]
    for name in ("state/**", ".env*", ".git/**"):
        assert {f"Read(./{name})", f"Edit(./{name})"} <= {*denied}


@pytest.mark.parametrize(
    ("thinking", "kind"), [("off", "disabled"), ("adaptive", "adaptive"), (4000, "enabled")]
)
def test_thinking_is_as_it_was_chosen(thinking: Thinking, kind: str) -> None:
    spec = SessionSpec("", Path("/data"), thinking=thinking)
    options = started(spec)
    assert options.thinking is not None
    assert options.thinking["type"] == kind


def test_the_engine_gets_the_variables_of_its_provider_and_of_our_commands() -> None:
    kept = {
        "ANTHROPIC_API_KEY": "y",
        "CLAUDE_CONFIG_DIR": "/claude",
        "NODE_EXTRA_CA_CERTS": "/ca.pem",
        "GOOGLE_TOKEN_URL": "https://google.example.org/token",
        "OLLIM_BOT_NAME": "Robin",
    }
    others = dict.fromkeys(("DISCORD_TOKEN", "OLLIM_OTHER_SECRET", "AWS_SECRET_ACCESS_KEY"), "x")
    given = {"ANTHROPIC_BASE_URL": "z"}
    environment = engine_variables(given, {**kept, **others}, Path("/bin"))
    assert {**kept, **given}.items() <= environment.items()
    assert not others.keys() & environment.keys()


def test_of_the_bots_environment_the_sdk_passes_on_names_without_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DISCORD_TOKEN", "x")
    assert started(SessionSpec("", Path("/data"))).env["DISCORD_TOKEN"] == ""


def test_the_agent_finds_our_command() -> None:
    given = {"OLLIM_TIMEZONE": "Asia/Tokyo"}
    environment = engine_variables(given, {"PATH": "/usr/bin"}, Path("/opt/bin"))
    assert environment["PATH"] == "/opt/bin:/usr/bin"
    assert environment["OLLIM_TIMEZONE"] == "Asia/Tokyo"


@pytest.mark.real_process
async def test_a_new_process_of_the_engine_has_the_zone_of_now(tmp_path: Path) -> None:
    """The program of this test only records its time zone, and ends."""
    cli, noted = tmp_path / "cli", tmp_path / "zone"
    cli.write_text(f'#!/bin/sh\necho "$TZ" > {noted}\nexit 1\n')
    cli.chmod(0o700)
    zones = iter(["Europe/Berlin", "Asia/Tokyo"])
    engine = ClaudeEngine({}, tmp_path / "run", cli=cli, zone=lambda: next(zones))
    for zone in ("Europe/Berlin", "Asia/Tokyo"):
        with pytest.raises(OllimError):
            async with engine.open(SessionSpec("Be kind.", tmp_path), Toolset()):
                pass
        assert noted.read_text() == f"{zone}\n"


@pytest.mark.parametrize(
    ("inherited", "expected"),
    [
        pytest.param({}, "127.0.0.1,localhost", id="none"),
        pytest.param({"NO_PROXY": "corp"}, "corp,127.0.0.1,localhost", id="upper case"),
        pytest.param({"no_proxy": "a, b"}, "a,b,127.0.0.1,localhost", id="lower case"),
        pytest.param({"NO_PROXY": "a", "no_proxy": "b,a"}, "a,b,127.0.0.1,localhost", id="both"),
        pytest.param({"NO_PROXY": "localhost"}, "localhost,127.0.0.1", id="there already"),
        pytest.param({"NO_PROXY": "*"}, "*", id="everything"),
    ],
)
def test_this_machine_is_reached_without_a_proxy(
    inherited: Mapping[str, str], expected: str
) -> None:
    environment = engine_variables({}, inherited, Path("/bin"))
    assert environment["NO_PROXY"] == environment["no_proxy"] == expected
