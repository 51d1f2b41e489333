"""`send_file`: regular files of the data directory, and none of its secrets."""

from __future__ import annotations

import os
import threading
from itertools import cycle

import pytest
from tests.kernel.tools.home_scene import HomeScene
from tests.kernel.tools.server.tool_scene import EVERYWHERE, ToolScene, make_tool_scene

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.tools.message_tools import sendable
from ollim_bot.kernel.values.chat import Attachment, Author
from ollim_bot.kernel.values.runs import RunKind

LARGEST = 25 * 1024 * 1024
SECRETS = (
    "state/token.json", "./state/token.json", "{data}/state/token.json", "STATE/token.json", ".env",
    "notes/../state/token.json", "to-token.md", "to-link.md", "folder/token.json",
    "notes/up/state/token.json", "home/data/.env", ".git/config", ".claude/agents/guide.md",
    "to-outside.md", "../outside.md", "{home}/outside.md", "notes/far/plan.md", "spec.md",
    "~/data/note.md", "/etc/passwd", "/dev/zero",
)  # fmt: skip
NO_FILES = ("", "gone.md", "notes", ".", "loop.md", "to-nothing.md", "pipe", "note.md/x", "a\0b")


def at_home(home: HomeScene, kind: RunKind = RunKind.BACKGROUND) -> ToolScene:
    return make_tool_scene(home.data, kind)


async def refusal(at: ToolScene, path: str) -> str:
    with pytest.raises(WrongInput) as refused:
        await at.call("send_file", file_path=path)
    assert at.poster.messages == []
    assert at.budget.tokens == 5
    return str(refused.value)


@pytest.mark.parametrize("kind", EVERYWHERE)
async def test_a_file_is_sent_from_everywhere(home: HomeScene, kind: RunKind) -> None:
    at = at_home(home, kind)
    assert await at.works("send_file", file_path="notes/plan.md", message="Here.") == "Sent."
    (message,) = at.poster.messages
    size = (home.data / "notes/plan.md").stat().st_size
    file = Attachment("plan.md", "notes/plan.md", "text/markdown", size)
    assert (message.text, message.attachments) == ("Here.", (file,))
    assert message.author is (Author.BACKGROUND if kind.is_background else Author.ASSISTANT)
    assert at.budget.tokens == (4 if kind.is_background else 5)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("{data}/note.md", "note.md"),
        ("notes/../note.md", "note.md"),
        ("notes/state/old.md", "notes/state/old.md"),
        ("into/old.md", "notes/state/old.md"),
    ],
)
async def test_however_its_path_is_spelled(home: HomeScene, given: str, path: str) -> None:
    at = at_home(home)
    await at.works("send_file", file_path=home.spelled(given))
    (message,) = at.poster.messages
    assert message.attachments[0].path == path
    assert message.text == message.attachments[0].name


async def test_a_data_directory_behind_a_link_is_one_too(home: HomeScene) -> None:
    (home.root / "linked").symlink_to(home.data)
    at = make_tool_scene(home.root / "linked")
    await at.works("send_file", file_path=str(home.root / "linked" / "note.md"))
    assert at.poster.messages[0].attachments[0].path == "note.md"


@pytest.mark.same_fixtures
@pytest.mark.parametrize("path", SECRETS)
async def test_no_secret_is_sent_by_any_spelling(home: HomeScene, path: str) -> None:
    assert await refusal(at_home(home), home.spelled(path))


async def test_nor_by_a_second_name_of_its_file(home: HomeScene) -> None:
    os.link(home.data / "state/token.json", home.data / "notes/second.md")
    assert "protected" in await refusal(at_home(home), "notes/second.md")


def test_nor_by_a_link_that_comes_and_goes_while_it_is_looked_at(home: HomeScene) -> None:
    """Many times, because the moment of the check cannot be chosen."""
    (home.data / "notes/honest.md").write_text("honest")
    is_over = threading.Event()

    def swap() -> None:
        for target in cycle(("honest.md", "../state/token.json", "../../outside.md")):
            if is_over.is_set():
                return
            (home.data / "notes/.new").symlink_to(target)
            (home.data / "notes/.new").replace(home.data / "notes/moving.md")

    (home.data / "notes/moving.md").symlink_to("honest.md")
    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        found = [_sent(home, "notes/moving.md") for _ in range(300)]
    finally:
        is_over.set()
        swapping.join()
    assert {*found} <= {None, ("notes/honest.md", 6)}


def _sent(home: HomeScene, path: str) -> tuple[str, int] | None:
    try:
        file = sendable(home.data, path)
    except WrongInput:
        return None
    return file.path, file.size


@pytest.mark.parametrize(
    "path", [".hidden.md", ".stuff/plan.md", "notes/.draft.md", "to-hidden.md"]
)
async def test_no_hidden_file_is_sent(home: HomeScene, path: str) -> None:
    (home.data / ".stuff").mkdir()
    for name in (".hidden.md", ".stuff/plan.md", "notes/.draft.md"):
        (home.data / name).write_text("mine")
    (home.data / "to-hidden.md").symlink_to(".hidden.md")
    assert "hidden" in await refusal(at_home(home), path)


@pytest.mark.parametrize("path", NO_FILES)
async def test_what_is_no_regular_file_is_not_sent(home: HomeScene, path: str) -> None:
    os.mkfifo(home.data / "pipe")
    assert await refusal(at_home(home), path)


async def test_25_mb_are_sent_and_a_byte_more_is_not(home: HomeScene) -> None:
    file = home.data / "large.bin"
    file.touch()
    os.truncate(file, LARGEST + 1)
    assert "larger than 25 MB" in await refusal(at_home(home), "large.bin")
    os.truncate(file, LARGEST)
    at = at_home(home)
    await at.works("send_file", file_path="large.bin")
    (attachment,) = at.poster.messages[0].attachments
    assert (attachment.size, attachment.media_type) == (LARGEST, "application/octet-stream")
