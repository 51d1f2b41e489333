"""Files that came with messages are kept by what they are, and never over another one."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.storage.attachments.desk import Desk
from tests.storage.attachments.pictures import FORMATS, opened, picture

from ollim_bot.domain.chat import Attachment
from ollim_bot.domain.inputs import InputId
from ollim_bot.errors import WriteFailed, WrongInput
from ollim_bot.ports import IncomingFile

PNG = picture("image/png")


@pytest.mark.parametrize("media_type", FORMATS)
async def test_a_picture_is_kept_out_of_the_agents_reach(desk: Desk, media_type: str) -> None:
    content = picture(media_type)
    attachment = desk.keep(content, "photo.bin")
    assert (attachment.name, attachment.media_type) == ("photo.bin", media_type)
    assert attachment.size == len(content)
    assert attachment.path.startswith("state/attachments/")
    assert attachment.is_image
    assert desk.kept(attachment) == content
    path = desk.data.paths.root / attachment.path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert await desk.keeper().image(attachment) == (media_type, content)
    assert list(desk.inbox.iterdir()) == []


def test_any_other_file_is_kept_where_the_agent_can_read_it(desk: Desk) -> None:
    attachment = desk.keep(b"hello\n", "../Notes.txt")
    assert attachment == Attachment("Notes.txt", "downloads/Notes.txt", "text/plain", 6)
    assert desk.kept(attachment) == b"hello\n"
    assert list(desk.inbox.iterdir()) == []


def test_a_picture_that_the_model_does_not_take_is_a_file(desk: Desk) -> None:
    attachment = desk.keep(b"II*\0....", "scan.tiff")
    assert attachment.path == "downloads/scan.tiff"
    assert not attachment.is_image


def test_words_that_call_themselves_a_picture_are_a_file(desk: Desk) -> None:
    attachment = desk.keep(b"I am a picture", "photo.png")
    assert (attachment.path, attachment.is_image) == ("downloads/photo.png", False)


def test_no_file_takes_the_place_of_another(desk: Desk) -> None:
    paths = [desk.keep(content.encode(), "a.txt").path for content in "xyz"]
    assert paths == ["downloads/a.txt", "downloads/a-2.txt", "downloads/a-3.txt"]
    assert (desk.data.paths.downloads / "a.txt").read_bytes() == b"x"


def test_the_same_message_again_keeps_its_picture_once(desk: Desk) -> None:
    first = desk.keeper().keep(InputId("m1"), desk.file(PNG, "photo.png"))
    again = desk.keeper().keep(InputId("m1"), desk.file(PNG, "photo.png"))
    other = desk.keeper().keep(InputId("m2"), desk.file(PNG, "photo.png"))
    assert first == again
    assert first.path != other.path
    assert len(list(desk.data.paths.attachments.iterdir())) == 2


def test_a_file_with_nothing_in_it_is_answered_with_a_sentence(desk: Desk) -> None:
    with pytest.raises(WrongInput) as wrong:
        desk.keep(b"", "photo.png")
    assert str(wrong.value) == "photo.png is empty."
    assert desk.downloads() == []
    assert list(desk.data.paths.attachments.iterdir()) == []


def test_a_file_of_25_mb_is_kept_and_one_byte_more_is_not(desk: Desk) -> None:
    most = 25 * 1024 * 1024
    assert desk.keep(bytes(most), "large.bin").size == most
    with pytest.raises(WrongInput) as wrong:
        desk.keep(bytes(most + 1), "larger.bin")
    assert str(wrong.value) == "larger.bin is larger than 25 MB, which is the most."


def test_a_file_that_is_gone_or_is_none_did_not_arrive(desk: Desk) -> None:
    pipe, link = desk.inbox / "pipe", desk.inbox / "link"
    os.mkfifo(pipe)
    link.symlink_to(desk.data.paths.identity)
    for path in (desk.inbox / "nothing", desk.inbox, pipe, link):
        with pytest.raises(WrongInput, match=r"a\.txt did not arrive whole\. Send it again\."):
            desk.keeper().keep(InputId("m1"), IncomingFile("a.txt", path))
    assert desk.downloads() == []


@pytest.mark.parametrize("name", ["a.txt", ".a.txt.tmp"])
def test_a_link_in_the_downloads_leads_nowhere(desk: Desk, name: str) -> None:
    target = desk.data.paths.root / "IDENTITY.md"
    before = target.read_bytes()
    (desk.data.paths.downloads / name).symlink_to(target)
    attachment = desk.keep(b"words", "a.txt")
    path = desk.data.paths.root / attachment.path
    assert target.read_bytes() == before
    assert not path.is_symlink()
    assert path.read_bytes() == b"words"


def test_a_dangling_link_is_not_written_through(desk: Desk) -> None:
    (desk.data.paths.downloads / "a.txt").symlink_to(desk.inbox / "new")
    assert desk.keep(b"words", "a.txt").path == "downloads/a-2.txt"
    assert not (desk.inbox / "new").exists()


def test_downloads_that_are_a_link_are_refused(desk: Desk) -> None:
    elsewhere = desk.inbox / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "old").write_bytes(b"of somebody")
    desk.data.paths.downloads.rmdir()
    desk.data.paths.downloads.symlink_to(elsewhere)
    file = desk.file(b"words")
    for refused in (
        lambda: desk.keeper().keep(InputId("m1"), file),
        lambda: desk.keeper().clean(desk.now + timedelta(days=99)),
    ):
        with pytest.raises(WriteFailed, match="is not a folder, or a link to one"):
            refused()
    assert file.path.exists()
    assert [path.name for path in elsewhere.iterdir()] == ["old"]


def test_folders_that_were_removed_are_made_again(desk: Desk) -> None:
    desk.data.paths.downloads.rmdir()
    desk.data.paths.attachments.rmdir()
    assert desk.kept(desk.keep(b"words")) == b"words"
    assert desk.kept(desk.keep(PNG)) == PNG


@pytest.mark.parametrize(
    "path",
    [
        "downloads/photo.png",
        "state/attachments/../token.json",
        "state/attachments/..",
        "state/attachments",
        "/etc/passwd",
        "",
        "state/attachments/a\0b",
        "state/attachments/half \ud83d",
        "state/attachments/link.png",
        "state/attachments/gone.png",
        "state/attachments/words.png",
    ],
)
async def test_only_kept_pictures_are_shown(desk: Desk, path: str) -> None:
    photo = desk.data.paths.downloads / "photo.png"
    photo.write_bytes(PNG)
    (desk.data.paths.state / "token.json").write_bytes(PNG)
    (desk.data.paths.attachments / "link.png").symlink_to(photo)
    (desk.data.paths.attachments / "words.png").write_bytes(b"words")
    with pytest.raises(WrongInput, match=r"^photo\.png is not "):
        await desk.keeper().image(Attachment("photo.png", path, "image/png", 9))


async def test_a_large_picture_is_kept_whole_and_shown_smaller(desk: Desk) -> None:
    content = picture("image/jpeg", (3000, 1000))
    attachment = desk.keep(content, "photo.jpg")
    assert desk.kept(attachment) == content
    media_type, shown = await desk.keeper().image(attachment)
    assert (media_type, opened(shown).size) == ("image/jpeg", (1568, 523))


def test_many_at_once_are_all_kept(desk: Desk) -> None:
    files = [desk.file(str(number).encode(), "a.txt") for number in range(30)]
    keeper = desk.keeper()
    with ThreadPoolExecutor(8) as pool:
        kept = list(pool.map(lambda file: keeper.keep(InputId("m1"), file), files))
    assert len({each.path for each in kept}) == 30
    assert [desk.kept(each) for each in kept] == [str(number).encode() for number in range(30)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.text(max_size=120), st.binary(min_size=1, max_size=60))
def test_any_name_and_any_content_are_kept_as_they_are(
    desk: Desk, name: str, content: bytes
) -> None:
    with suppress(WrongInput):
        attachment = desk.keep(content, name)
        assert desk.kept(attachment) == content
        place = desk.data.paths.root / attachment.path
        assert place.parent in (desk.data.paths.downloads, desk.data.paths.attachments)
