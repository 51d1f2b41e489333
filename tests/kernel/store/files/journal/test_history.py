"""What of the data directory is committed, and what the commit says."""

from __future__ import annotations

from pathlib import PurePath, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.kernel.store.journal import commit_message, is_tracked

NAMES = st.text(st.characters(exclude_characters="/\0"), min_size=1).filter(
    lambda name: name not in (".", "..")
)


@pytest.mark.parametrize(
    "path",
    [
        ".claude/agents/researcher.md",
        ".gitignore",
        "IDENTITY.md",
        "USER.md",
        "reminders/call-mum.md",
        "routines/morning.md",
        "skills/cooking/SKILL.md",
        "skills/state/SKILL.md",
        "state/session_history.jsonl",
        "tool-policy.yaml",
        "webhooks/parcel.md",
    ],
)
def test_files_that_people_and_agent_share_are_tracked(path: str) -> None:
    assert is_tracked(PurePath(path))


@pytest.mark.parametrize(
    "path",
    [
        "",
        "..env.tmp",
        "../elsewhere.md",
        ".claude/skills",
        ".claude/skills/cooking/SKILL.md",
        ".env",
        ".env.local",
        ".git",
        ".git/config",
        "/etc/passwd",
        "downloads/invoice.pdf",
        "routine-reminder-spec.md",
        "routines/.env",
        "routines/.morning.md.tmp",
        "skills/tool/.GIT/config",
        "skills/tool/.env/secret",
        "state",
        "state/session_history.jsonl/web_token",
        "state/token.json",
        "webhook-spec.md",
    ],
)
def test_secrets_state_and_links_are_never_tracked(path: str) -> None:
    assert not is_tracked(PurePath(path))


@given(
    st.sampled_from(["state", "downloads", ".env", ".git"]), st.lists(NAMES, max_size=3).map(tuple)
)
def test_nothing_below_a_private_folder_is_tracked_but_the_session_history(
    folder: str, names: tuple[str, ...]
) -> None:
    path = PurePath(folder, *names)
    assert is_tracked(path) == (path == PurePath("state/session_history.jsonl"))


def said(*messages: str) -> str:
    return commit_message([(PurePosixPath(f"{n}.md"), each) for n, each in enumerate(messages)])


def test_one_note_is_said_as_it_is() -> None:
    assert said("add routine a1b2c3d4\n\n# with a reason") == (
        "add routine a1b2c3d4\n\n# with a reason\n"
    )


def test_several_notes_are_counted_and_listed() -> None:
    assert said("add routine a1b2c3d4", "edit\nreminder 0f0f0f0f") == (
        "2 changes: add routine a1b2c3d4, edit reminder 0f0f0f0f\n"
        "\n"
        "add routine a1b2c3d4\n"
        "edit reminder 0f0f0f0f\n"
    )


def test_the_same_message_for_the_same_file_is_said_once() -> None:
    note = (PurePosixPath("a.md"), "auto: edit a.md")
    assert commit_message([note, note]) == "auto: edit a.md\n"


def test_an_empty_message_names_the_file() -> None:
    assert said(" \0\n") == "change 0.md\n"


@given(st.lists(st.text(), min_size=2, max_size=40))
def test_a_summary_has_one_short_line_and_then_one_line_for_each_note(messages: list[str]) -> None:
    subject, blank, *lines = said(*messages).removesuffix("\n").split("\n")
    assert subject.startswith(f"{len(messages)} changes: ")
    assert len(subject) <= 72
    assert blank == ""
    assert len(lines) == len(messages)
    assert all(lines)


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_a_message_is_never_empty_and_never_holds_what_git_refuses(messages: list[str]) -> None:
    message = said(*messages)
    assert message.strip()
    assert "\0" not in message
