"""The system prompt: who the bot is, and how it works here."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.terminal import Terminal
from tests.prompts.prompt_parts import NOW, hostile, image

import ollim_bot
from ollim_bot.domain.shared_files import Names, Profile
from ollim_bot.prompts.context import FOR_MAIN, SYSTEM, attachments_list, timestamp
from ollim_bot.prompts.turns import PARTS, build_system_prompt, read_manual
from ollim_bot.tools.registry import OWN_TOOLS, TOOL_LINES

FOLDER = Path(ollim_bot.__file__).parent / "texts" / "system"
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


def test_it_is_the_same_for_the_same() -> None:
    again = build_system_prompt(Profile("a", "b"), ADA, "Europe/Berlin", read_manual(TOOL_LINES))
    assert built(Profile("a", "b")) == again


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
