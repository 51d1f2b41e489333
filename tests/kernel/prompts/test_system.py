"""The system prompt, and what the agent and its helpers are told about forks and commands."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.prompts.prompt_parts import NOW, ago, hostile, image, reads_as_ours
from tests.terminal import Terminal

import ollim_bot
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.prompts.prompt_context import FOR_MAIN, SYSTEM, attachments_list, timestamp
from ollim_bot.kernel.prompts.turn_prompts import (
    PARTS,
    build_system_prompt,
    button_prompt,
    fork_prompt,
    idle_prompt,
    read_manual,
    report_prompt,
    resumed_fork_prompt,
)
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.owner_files import SubagentFiles
from ollim_bot.kernel.tools.registry import MAIN_TOOLS, OWN_TOOLS, TOOL_LINES
from ollim_bot.kernel.values.permissions import Pattern, is_covered
from ollim_bot.kernel.values.runs import Subagent
from ollim_bot.kernel.values.shared_files import Names, Profile

FOLDER = Path(ollim_bot.__file__).parent / "kernel" / "texts" / "system"

MANUAL = read_manual(TOOL_LINES)

ADA = Names("Ada", "Ollim")

NOBODY = Profile()


def built(profile: Profile = NOBODY, names: Names = ADA, zone: str = "Europe/Berlin") -> str:
    return build_system_prompt(profile, names, zone, MANUAL)


def test_the_profile_comes_first_and_then_the_manual() -> None:
    prompt = built(Profile("# Me\n\nCalm.\n", "# Ada\n\nLikes {tea}.\n"))
    assert prompt.startswith(
        "# Me\n\nCalm.\n\n# Ada\n\nLikes {tea}.\n\n# How you work\n\nYou are Ollim,"
    )
    assert built().startswith("# How you work")


def test_what_we_add_to_the_first_request_is_small() -> None:
    tools = (tool for tools in OWN_TOOLS.values() for tool in tools)
    shown = ({"name": t.full_name, "description": t.description, **t.schema} for t in tools)
    sent = [MANUAL, *(json.dumps(each, ensure_ascii=False) for each in shown)]
    assert sum(len(text.encode()) for text in sent) < 18_000


def test_every_part_is_used_once() -> None:
    assert sorted(PARTS) == sorted(path.stem for path in FOLDER.iterdir())
    for part in PARTS:
        for text in (FOLDER / f"{part}.md").read_text().strip().split("{tools}"):
            assert MANUAL.count(text) == 1


def test_it_lists_the_tools_as_they_declare_themselves() -> None:
    manual = read_manual(["`one`: first.", "`two`: {zone}."])
    assert "count from there.\n\n- `one`: first.\n- `two`: {zone}.\n\n`state/`" in manual


def test_it_names_every_tool() -> None:
    names = [tool.name for tools in OWN_TOOLS.values() for tool in tools]
    assert [name for name in names if f"`{name}`" not in MANUAL] == ["ping_user"]


def test_names_and_zone_are_filled_in_and_no_blank_is_left() -> None:
    prompt = built()
    assert "Ada" in prompt
    assert "Europe/Berlin" in prompt
    assert not re.search(r"\{[a-z_]+\}", prompt)


@given(st.text(), st.text())
def test_the_profile_is_taken_as_it_is(identity: str, user: str) -> None:
    assert built(Profile(identity, user)) == "\n\n".join(
        part for part in (identity.strip(), user.strip(), built()) if part
    )


@given(hostile | st.sampled_from(["{bot_name}", "{zone}", "{0}", "{", "a\nb", "\\1", "\\g<0>"]))
def test_no_name_can_break_it(name: str) -> None:
    lines = built(names=Names(name, name)).splitlines()
    assert len(lines) == len(built().splitlines())
    assert [a for a, b in zip(lines, built().splitlines(), strict=True) if a != b][1:] == []


def test_only_blanks_of_the_manual_are_filled_in() -> None:
    names = Names("{bot_name}", "{zone} {0}")
    manual = "{user_name}, {bot_name}, {zone}, {x}, {}"
    filled = build_system_prompt(Profile("{zone}"), names, "UTC", manual)
    assert filled == "{zone}\n\n{bot_name}, {zone} {0}, UTC, {x}, {}"


@pytest.mark.parametrize(
    "sign",
    [SYSTEM, FOR_MAIN.partition(" (")[0], attachments_list([image("x")]).split("\n")[0], "`> `"],
)
def test_it_explains_every_sign_that_occurs(sign: str) -> None:
    assert sign in MANUAL


def test_the_time_it_shows_is_one_that_the_program_writes() -> None:
    assert timestamp(NOW) in MANUAL


def test_its_commands_are_real(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    spans = re.findall(r"`([^`]+)`", " ".join(MANUAL.split()))
    commands = [shlex.split(span)[1:] for span in spans if span.startswith("ollim-bot ")]
    assert len(commands) > 15
    for noun, *rest in commands:
        page = terminal.done("help", noun, *rest[:1] if noun != "rehearse" else [])
        assert [word for word in rest if word.startswith("--") and word not in page] == []
    verbs = {span for span in spans if re.fullmatch("[a-z]+", span)} & {"snooze", "pause", "resume"}
    assert len(verbs) == 3
    for verb in verbs:
        terminal.done("help", "reminder", verb)


STAMP = "[2026-02-24 Tue 10:15 AM PST]"

UPDATES = "RECENT BACKGROUND UPDATES (x)\n- (just now) y"


@pytest.mark.parametrize("updates", ["", UPDATES])
@pytest.mark.parametrize(
    ("topic", "task"),
    [
        ("The trip\nto Rome", "Topic: The trip to Rome"),
        ("", "No topic yet. Say in one short sentence that you are here, and wait for the owner."),
    ],
)
def test_a_fork_begins_with_its_topic_or_waits(topic: str, task: str, updates: str) -> None:
    tail = f"\n{updates}" if updates else ""
    assert fork_prompt(NOW, topic, updates) == f"[fork-started] {task}\n{STAMP}{tail}"


def test_a_resumed_fork_says_how_old_it_is() -> None:
    assert resumed_fork_prompt(NOW, ago(125), "And then?", UPDATES) == (
        "[fork-started] [stale-fork: 2h ago] This goes on from an earlier session. "
        "Wait for the owner's words below, or ask.\n"
        f"{STAMP}\n{UPDATES}\n\nAnd then?"
    )


def test_what_the_program_asks_of_a_fork_names_the_tool() -> None:
    idle, report = idle_prompt(NOW), report_prompt(NOW)
    assert idle.startswith("[fork-timeout] Nobody has said anything for a while.")
    assert all(tool in idle for tool in ("`report_updates`", "`save_context`", "`exit_fork`"))
    assert report.startswith("[system] The owner wants to end this fork with a report.")
    assert idle.endswith(f"\n{STAMP}")
    assert report.endswith(f"\n{STAMP}")


@pytest.mark.parametrize("updates", ["", UPDATES])
def test_a_button_sends_its_prompt(updates: str) -> None:
    middle = f"\n{updates}" if updates else ""
    assert button_prompt("Snooze it.", NOW, updates) == f"[button]\n{STAMP}{middle}\n\nSnooze it."


@given(hostile)
def test_nothing_behind_a_button_or_in_a_topic_can_pose_as_ours(text: str) -> None:
    head, _, body = button_prompt(text, NOW).partition("\n\n")
    assert head == f"[button]\n{STAMP}"
    assert not any(map(reads_as_ours, body.splitlines()))
    assert fork_prompt(NOW, text).count("\n") == 1


NAMES = (
    "gmail-reader",
    "history-reviewer",
    "ollim-bot-guide",
    "responsiveness-reviewer",
    "user-proxy",
)


@pytest.fixture(params=NAMES)
def subagent(request: pytest.FixtureRequest, tmp_path: Path) -> Subagent:
    paths = DataPaths(tmp_path / "data")
    prepare_data_directory(paths)
    return SubagentFiles(paths).read().known[request.param]


def commands(subagent: Subagent) -> list[str]:
    spans = re.findall(r"`([^`]+)`", subagent.instructions)
    return [span for span in spans if span.startswith("ollim-bot ")]


def test_every_command_exists_and_is_allowed_to_it(subagent: Subagent, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    for command in commands(subagent):
        assert subagent.pattern_for("Bash", {"command": command}, "/") is not None, command
        _, noun, *rest = shlex.split(command)
        if rest:
            verb, *arguments = rest
            page = terminal.done("help", noun, verb)
            flags = [word for word in arguments if word.startswith("--")]
            assert [flag for flag in flags if flag not in page] == [], command
        else:
            terminal.done(noun)


def test_every_tool_exists_and_is_allowed_to_it(subagent: Subagent) -> None:
    ours = {tool.name: tool.full_name for tools in OWN_TOOLS.values() for tool in tools}
    named = [name for name in ours if f"`{name}`" in subagent.instructions]
    assert [name for name in named if subagent.pattern_for(ours[name], {}, "/") is None] == []


def test_it_goes_nowhere_beyond_the_conversation(subagent: Subagent) -> None:
    main = [Pattern.of(text) for text in MAIN_TOOLS]
    assert subagent.tools
    assert [str(each) for each in subagent.tools if not is_covered(each, main)] == []


def test_it_is_short_and_says_what_to_answer(subagent: Subagent) -> None:
    assert len(subagent.instructions) < 1800
    assert len(subagent.description) < 220
    assert "Your answer goes to the agent that asked" in subagent.instructions
