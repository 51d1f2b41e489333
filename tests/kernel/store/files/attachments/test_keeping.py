"""Incoming files are stored by their content under safe names, durably, and never overwrite."""

from __future__ import annotations

import os
import random
import stat
import struct
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from io import BytesIO
from itertools import islice
from pathlib import Path

import pytest
from devtools.doubles.disks import PowerCutDisk, SteppedDisk, failing_at
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.kernel.store.files.attachments.pictures import FORMATS, picture
from tests.kernel.store.files.attachments.scene import AttachmentScene
from tests.kernel.store.files.test_power_cut import PowerCut

from ollim_bot.kernel.base.errors import WriteFailed, WrongInput
from ollim_bot.kernel.store.attachments.attachment_files import (
    LONGEST_NAME,
    AttachmentLimits,
    media_type_of,
    numbered_names,
    safe_name,
)
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.values.chat import IMAGES, Attachment
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.ports import IncomingFile

PNG = picture("image/png")


@pytest.mark.parametrize("media_type", FORMATS)
def test_a_picture_is_kept_out_of_the_agents_reach(scene: AttachmentScene, media_type: str) -> None:
    content = picture(media_type)
    attachment = scene.keep(content, "photo.bin")
    assert (attachment.name, attachment.media_type) == ("photo.bin", media_type)
    assert attachment.size == len(content)
    assert attachment.path.startswith("state/attachments/")
    assert attachment.is_image
    assert scene.content_of(attachment) == content
    path = scene.data.paths.root / attachment.path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
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


HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}

given_names = (
    st.text() | st.text("./\\-~ \u202e\u0000\n", min_size=1) | st.text("ab😀.é", min_size=90)
)


@pytest.mark.parametrize(
    ("given_name", "expected"),
    [
        ("report.pdf", "report.pdf"),
        ("My Report (final).PDF", "My Report (final).PDF"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\ada\\notes.txt", "notes.txt"),
        ("folder/", "folder"),
        ("/", "file"),
        ("", "file"),
        ("..", "file"),
        (".env", "env"),
        ("...hidden", "hidden"),
        ("-rf.txt", "rf.txt"),
        ("a\x00b\nc\x1b[31m.txt", "abc[31m.txt"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("\u2066left\u2069.txt", "left.txt"),
        ("two  \u00a0 words\u2028here.txt", "two words here.txt"),
        ("half \ud83d.txt", "half.txt"),
        ("ends. ", "ends"),
        ('what?<is>|"this":*`.txt', "what--is---this----.txt"),
        ("отчёт.pdf", "отчёт.pdf"),
        ("日本語のファイル.txt", "日本語のファイル.txt"),
        ("می\u200cخواهم.txt", "می\u200cخواهم.txt"),
        ("e\u0301te\u0301.txt", "\u00e9t\u00e9.txt"),
        ("x" * 300 + ".pdf", "x" * 96 + ".pdf"),
        ("x." + "y" * 300, "x." + "y" * 98),
        ("😀" * 90 + ".txt", "😀" * 49 + ".txt"),
    ],
)
def test_a_name_keeps_what_is_safe_of_it(given_name: str, expected: str) -> None:
    assert safe_name(given_name) == expected


@given(given_names)
@example("\u202e.\u202e.env")
@example("." * 200 + "/")
@example("\u200d")
def test_every_name_is_safe(given_name: str) -> None:
    for name in islice(numbered_names(safe_name(given_name)), 12):
        assert 1 <= len(name) <= LONGEST_NAME
        assert len(name.encode()) <= 200
        assert not name.startswith((".", "-", " "))
        assert not name.endswith((".", " "))
        assert not set(name) & set('/\\<>:"|?*`\0')
        visible = name.replace("\u200c", "").replace("\u200d", "")
        assert visible
        assert not {unicodedata.category(sign) for sign in visible} & HIDDEN


@given(given_names)
@example(f"{'0' * 82}..{'0' * 17}")
def test_a_safe_name_stays_as_it_is(given_name: str) -> None:
    assert safe_name(safe_name(given_name)) == safe_name(given_name)


@given(given_names)
def test_numbered_names_are_all_different(given_name: str) -> None:
    names = list(islice(numbered_names(safe_name(given_name)), 120))
    assert len(set(names)) == 120
    assert names[0] == safe_name(given_name)


def test_the_number_stands_before_the_ending() -> None:
    assert list(islice(numbered_names("report.pdf"), 3)) == [
        "report.pdf",
        "report-2.pdf",
        "report-3.pdf",
    ]


def in_other_form(form: str) -> bytes:
    buffer = BytesIO()
    Image.new("RGB", (9, 9)).save(buffer, form)
    return buffer.getvalue()


def mp4(brand: bytes, handler: bytes) -> bytes:
    hdlr = b"hdlr" + bytes(8) + handler + bytes(12)
    return struct.pack(">I", 16) + b"ftyp" + brand + bytes(4) + b"....moov" + hdlr


@pytest.mark.parametrize("media_type", FORMATS)
def test_the_pictures_of_the_model_are_known(media_type: str) -> None:
    assert media_type_of(picture(media_type)) == media_type
    assert media_type in IMAGES


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (in_other_form("BMP"), "image/bmp"),
        (in_other_form("TIFF"), "image/tiff"),
        (in_other_form("AVIF"), "image/avif"),
        (mp4(b"heic", b"pict"), "image/heic"),
        (mp4(b"mif1", b"pict"), "image/heic"),
        (b"%PDF-1.7\n...", "application/pdf"),
        (b"PK\x03\x04....", "application/zip"),
        (b"\x1f\x8b\x08\0", "application/gzip"),
        (b"OggS" + bytes(24) + b"OpusHead", "audio/ogg"),
        (b"OggS" + bytes(24) + b"\x01vorbis", "audio/ogg"),
        (b"OggS" + bytes(24) + b"\x80theora", "video/ogg"),
        (mp4(b"M4A ", b"soun"), "audio/mp4"),
        (mp4(b"mp42", b"soun"), "audio/mp4"),
        (mp4(b"isom", b"vide"), "video/mp4"),
        (b"\x1a\x45\xdf\xa3....webm....A_OPUS", "audio/webm"),
        (b"\x1a\x45\xdf\xa3....webm....V_VP9..A_OPUS", "video/webm"),
        (b"RIFF\x10\0\0\0WAVEfmt ", "audio/wav"),
        (b"RIFF\x10\0\0\0AVI LIST", "video/x-msvideo"),
        (b"fLaC....", "audio/flac"),
        (b"ID3\x04....", "audio/mpeg"),
        (b"\xff\xfb\x90\x64", "audio/mpeg"),
        (b"\xff\xf1\x50\x80", "audio/aac"),
        (b"#!AMR\n", "audio/amr"),
        (b"BM is a short name\n", "text/plain"),
        ("Grüße, 日本語\n".encode(), "text/plain"),
        (b"\xff\xfeh\0i\0", "application/octet-stream"),
        (b"a\0b", "application/octet-stream"),
        (b"RIFF", "text/plain"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "text/plain"),
    ],
)
def test_other_kinds_are_known_by_their_content(data: bytes, media_type: str) -> None:
    assert media_type_of(data) == media_type


@given(st.binary(max_size=40), st.sampled_from([b"", b"RIFF", b"OggS", b"\0\0\0\x10ftyp", b"\xff"]))
def test_anything_has_a_kind(data: bytes, beginning: bytes) -> None:
    assert media_type_of(beginning + data).count("/") == 1


def noted(media_type: str) -> str:
    return Attachment("x", "downloads/x", media_type, 1).unread_note


def test_what_nobody_can_read_is_said_honestly() -> None:
    sentence = "I cannot hear voice messages and other recordings yet; downloads/x is kept."
    assert noted("audio/ogg") == noted("audio/mp4") == sentence
    assert noted("video/mp4") == "I cannot watch videos; downloads/x is kept."
    assert noted("image/heic") == (
        "I can see PNG, JPEG, GIF and WebP pictures only; downloads/x is kept."
    )


@pytest.mark.parametrize("media_type", [*FORMATS, "text/plain", "application/pdf"])
def test_nothing_is_said_about_what_can_be_read(media_type: str) -> None:
    assert noted(media_type) == ""


SMALL = AttachmentLimits(file=5000, downloads=1000)


def test_files_leave_after_thirty_days(scene: AttachmentScene) -> None:
    scene.keep(b"old")
    scene.keep(PNG)
    scene.now += timedelta(days=20)
    scene.keep(b"newer", "newer.txt")
    assert scene.store().clean(scene.now + timedelta(days=9, hours=23)) == 0
    assert scene.store().clean(scene.now + timedelta(days=10, minutes=1)) == 2
    assert scene.downloads() == ["newer.txt"]
    assert list(scene.data.paths.attachments.iterdir()) == []


def test_cleaning_leaves_links_folders_and_what_was_moved_in_lately(scene: AttachmentScene) -> None:
    downloads = scene.data.paths.downloads
    (downloads / "folder").mkdir()
    (downloads / "folder" / "file").write_bytes(b"x")
    (downloads / "link").symlink_to(scene.data.paths.identity)
    (downloads / "moved").write_bytes(b"x")
    os.utime(downloads / "moved", (0, 0))
    assert scene.store().clean(datetime.now(UTC)) == 0
    assert scene.store().clean(datetime.now(UTC) + timedelta(days=31)) == 1
    assert scene.downloads() == ["folder", "link"]
    assert scene.data.paths.identity.exists()


def test_the_oldest_downloads_make_room_for_a_new_one(scene: AttachmentScene) -> None:
    for number in range(3):
        scene.keep(bytes(300), f"{number}.bin", SMALL)
        scene.now += timedelta(days=1)
    scene.keep(bytes(300), "3.bin", SMALL)
    assert scene.downloads() == ["1.bin", "2.bin", "3.bin"]


def test_todays_downloads_never_make_room(scene: AttachmentScene) -> None:
    scene.keep(bytes(300), "yesterday.bin", SMALL)
    scene.now += timedelta(days=1)
    for number in range(3):
        scene.keep(bytes(300), f"{number}.bin", SMALL)
    with pytest.raises(WrongInput, match=r"^4\.bin does not fit: the files of today"):
        scene.keep(bytes(300), "4.bin", SMALL)
    assert scene.downloads() == ["0.bin", "1.bin", "2.bin"]


def test_pictures_take_no_room_of_the_downloads(scene: AttachmentScene) -> None:
    limits = AttachmentLimits(downloads=len(PNG))
    scene.keep(PNG, "a.png", limits)
    scene.keep(b"x" * len(PNG), "a.txt", limits)
    assert len(list(scene.data.paths.attachments.iterdir())) == 1


def test_cleaning_also_takes_what_is_too_much(scene: AttachmentScene) -> None:
    for number in range(3):
        scene.keep(bytes(500), f"{number}.bin")
        scene.now += timedelta(days=1)
    assert scene.store(SMALL).clean(scene.now) == 1
    assert scene.downloads() == ["1.bin", "2.bin"]


@pytest.mark.parametrize("content", [b"words", PNG], ids=["file", "picture"])
def test_a_disk_that_refuses_leaves_the_file_where_it_was(
    scene: AttachmentScene, content: bytes
) -> None:
    for step in ("write", "sync", "link", "sync_folder"):
        file = scene.file(content)
        with pytest.raises(WriteFailed, match="No space left on device"):
            scene.store(disk=failing_at(step)).keep(InputId("m1"), file)
        assert file.path.read_bytes() == content
        assert not list(scene.data.paths.root.rglob(".*.tmp"))


@pytest.mark.parametrize("content", [b"words", PNG], ids=["file", "picture"])
def test_what_was_kept_survives_a_power_cut(
    scene: AttachmentScene, content: bytes, pytestconfig: pytest.Config
) -> None:
    """A power cut during the storing leaves the file whole: stored, or where it was."""
    for steps in range(10):
        rng = random.Random(f"{pytestconfig.option.chaos_seed} {steps}")
        disk = PowerCutDisk(OsDisk(), rng)
        file = scene.file(content, f"{steps}.txt")
        kept: list[Attachment] = []
        with suppress(PowerCut):
            counted = SteppedDisk(disk, until(steps))
            kept.append(scene.store(disk=counted).keep(InputId(str(steps)), file))
        disk.cut()
        if kept:
            assert scene.content_of(kept[0]) == content
        else:
            assert file.path.read_bytes() == content
    assert kept


def until(steps: int) -> Callable[[str, Path], None]:
    left = [steps]

    def before(_: str, __: Path) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise PowerCut

    return before
