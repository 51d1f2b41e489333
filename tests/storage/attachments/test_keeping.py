"""Incoming files are stored according to their content, and never overwrite a file."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.storage.attachments.pictures import FORMATS, opened, picture
from tests.storage.attachments.scene import AttachmentScene

from ollim_bot.domain.chat import Attachment
from ollim_bot.domain.inbox import InputId
from ollim_bot.errors import WriteFailed, WrongInput
from ollim_bot.ports import IncomingFile

PNG = picture("image/png")


@pytest.mark.real_process
@pytest.mark.parametrize("media_type", FORMATS)
async def test_a_picture_is_kept_out_of_the_agents_reach(
    scene: AttachmentScene, media_type: str
) -> None:
    content = picture(media_type)
    attachment = scene.keep(content, "photo.bin")
    assert (attachment.name, attachment.media_type) == ("photo.bin", media_type)
    assert attachment.size == len(content)
    assert attachment.path.startswith("state/attachments/")
    assert attachment.is_image
    assert scene.content_of(attachment) == content
    path = scene.data.paths.root / attachment.path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert await scene.store().image(attachment) == (media_type, content)
    assert list(scene.inbox.iterdir()) == []


def test_any_other_file_is_kept_where_the_agent_can_read_it(scene: AttachmentScene) -> None:
    attachment = scene.keep(b"hello\n", "../Notes.txt")
    assert attachment == Attachment("Notes.txt", "downloads/Notes.txt", "text/plain", 6)
    assert scene.content_of(attachment) == b"hello\n"
    assert list(scene.inbox.iterdir()) == []


def test_a_picture_that_the_model_does_not_take_is_a_file(scene: AttachmentScene) -> None:
    attachment = scene.keep(b"II*\0....", "scan.tiff")
    assert attachment.path == "downloads/scan.tiff"
    assert not attachment.is_image


def test_words_that_call_themselves_a_picture_are_a_file(scene: AttachmentScene) -> None:
    attachment = scene.keep(b"I am a picture", "photo.png")
    assert (attachment.path, attachment.is_image) == ("downloads/photo.png", False)


def test_no_file_takes_the_place_of_another(scene: AttachmentScene) -> None:
    paths = [scene.keep(content.encode(), "a.txt").path for content in "xyz"]
    assert paths == ["downloads/a.txt", "downloads/a-2.txt", "downloads/a-3.txt"]
    assert (scene.data.paths.downloads / "a.txt").read_bytes() == b"x"


def test_the_same_message_again_keeps_its_picture_once(scene: AttachmentScene) -> None:
    first = scene.store().keep(InputId("m1"), scene.file(PNG, "photo.png"))
    again = scene.store().keep(InputId("m1"), scene.file(PNG, "photo.png"))
    other = scene.store().keep(InputId("m2"), scene.file(PNG, "photo.png"))
    assert first == again
    assert first.path != other.path
    assert len(list(scene.data.paths.attachments.iterdir())) == 2


def test_a_file_with_nothing_in_it_is_answered_with_a_sentence(scene: AttachmentScene) -> None:
    with pytest.raises(WrongInput) as wrong:
        scene.keep(b"", "photo.png")
    assert str(wrong.value) == "photo.png is empty."
    assert scene.downloads() == []
    assert list(scene.data.paths.attachments.iterdir()) == []


def test_a_file_of_25_mb_is_kept_and_one_byte_more_is_not(scene: AttachmentScene) -> None:
    most = 25 * 1024 * 1024
    assert scene.keep(bytes(most), "large.bin").size == most
    with pytest.raises(WrongInput) as wrong:
        scene.keep(bytes(most + 1), "larger.bin")
    assert str(wrong.value) == "larger.bin is larger than 25 MB, which is the most."


def test_a_file_that_is_gone_or_is_none_did_not_arrive(scene: AttachmentScene) -> None:
    pipe, link = scene.inbox / "pipe", scene.inbox / "link"
    os.mkfifo(pipe)
    link.symlink_to(scene.data.paths.identity)
    for path in (scene.inbox / "nothing", scene.inbox, pipe, link):
        with pytest.raises(WrongInput, match=r"a\.txt did not arrive whole\. Send it again\."):
            scene.store().keep(InputId("m1"), IncomingFile("a.txt", path))
    assert scene.downloads() == []


@pytest.mark.parametrize("name", ["a.txt", ".a.txt.tmp"])
def test_a_link_in_the_downloads_leads_nowhere(scene: AttachmentScene, name: str) -> None:
    target = scene.data.paths.root / "IDENTITY.md"
    before = target.read_bytes()
    (scene.data.paths.downloads / name).symlink_to(target)
    attachment = scene.keep(b"words", "a.txt")
    path = scene.data.paths.root / attachment.path
    assert target.read_bytes() == before
    assert not path.is_symlink()
    assert path.read_bytes() == b"words"


def test_a_dangling_link_is_not_written_through(scene: AttachmentScene) -> None:
    (scene.data.paths.downloads / "a.txt").symlink_to(scene.inbox / "new")
    assert scene.keep(b"words", "a.txt").path == "downloads/a-2.txt"
    assert not (scene.inbox / "new").exists()


def test_downloads_that_are_a_link_are_refused(scene: AttachmentScene) -> None:
    elsewhere = scene.inbox / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "old").write_bytes(b"of somebody")
    scene.data.paths.downloads.rmdir()
    scene.data.paths.downloads.symlink_to(elsewhere)
    file = scene.file(b"words")
    for refused in (
        lambda: scene.store().keep(InputId("m1"), file),
        lambda: scene.store().clean(scene.now + timedelta(days=99)),
    ):
        with pytest.raises(WriteFailed, match="is not a folder, or a link to one"):
            refused()
    assert file.path.exists()
    assert [path.name for path in elsewhere.iterdir()] == ["old"]


def test_folders_that_were_removed_are_made_again(scene: AttachmentScene) -> None:
    scene.data.paths.downloads.rmdir()
    scene.data.paths.attachments.rmdir()
    assert scene.content_of(scene.keep(b"words")) == b"words"
    assert scene.content_of(scene.keep(PNG)) == PNG


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
async def test_only_kept_pictures_are_shown(scene: AttachmentScene, path: str) -> None:
    photo = scene.data.paths.downloads / "photo.png"
    photo.write_bytes(PNG)
    (scene.data.paths.state / "token.json").write_bytes(PNG)
    (scene.data.paths.attachments / "link.png").symlink_to(photo)
    (scene.data.paths.attachments / "words.png").write_bytes(b"words")
    with pytest.raises(WrongInput, match=r"^photo\.png is not "):
        await scene.store().image(Attachment("photo.png", path, "image/png", 9))


@pytest.mark.real_process
async def test_a_large_picture_is_kept_whole_and_shown_smaller(scene: AttachmentScene) -> None:
    content = picture("image/jpeg", (3000, 1000))
    attachment = scene.keep(content, "photo.jpg")
    assert scene.content_of(attachment) == content
    media_type, shown = await scene.store().image(attachment)
    assert (media_type, opened(shown).size) == ("image/jpeg", (1568, 523))


def test_many_at_once_are_all_kept(scene: AttachmentScene) -> None:
    files = [scene.file(str(number).encode(), "a.txt") for number in range(30)]
    store = scene.store()
    with ThreadPoolExecutor(8) as pool:
        kept = list(pool.map(lambda file: store.keep(InputId("m1"), file), files))
    assert len({each.path for each in kept}) == 30
    assert [scene.content_of(each) for each in kept] == [
        str(number).encode() for number in range(30)
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.text(max_size=120), st.binary(min_size=1, max_size=60))
def test_any_name_and_any_content_are_kept_as_they_are(
    scene: AttachmentScene, name: str, content: bytes
) -> None:
    with suppress(WrongInput):
        attachment = scene.keep(content, name)
        assert scene.content_of(attachment) == content
        place = scene.data.paths.root / attachment.path
        assert place.parent in (scene.data.paths.downloads, scene.data.paths.attachments)
