"""Pictures are decoded in a separate process, which is killed after some seconds."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from PIL import Image
from tests.kernel.store.files.attachments.pictures import (
    encoded,
    many_scans,
    opened,
    picture,
    png_bomb,
)
from tests.kernel.store.files.attachments.scene import AttachmentScene

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.store.attachments.attachment_files import AttachmentLimits
from ollim_bot.kernel.store.attachments.pictures import PictureLimits

pytestmark = [
    pytest.mark.real_process,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]

SLOW_JPEG = many_scans(40_000)
# So long that only the test ends the process.
PATIENT = PictureLimits(cpu=300, wall=300, waiting=300)
TOO_SLOW = "photo takes too long to read. Send a smaller copy of it."


def limits(picture_limits: PictureLimits) -> AttachmentLimits:
    return AttachmentLimits(picture=picture_limits)


def children(parent: int | None = None) -> list[int]:
    """The picture processes that are children of `parent`, or of this process."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            stat = (folder / "stat").read_text()
        except OSError:
            continue
        is_ours = int(stat.rpartition(")")[2].split()[1]) == (parent or os.getpid())
        if is_ours and any(word.endswith(b"/decoding.py") for word in words):
            found.append(int(folder.name))
    return found


async def confined_child(parent: int | None = None) -> int:
    """The only picture process, after it has set its limits."""
    async with asyncio.timeout(60):
        while True:
            for pid in children(parent):
                if os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0):
                    return pid
            await asyncio.sleep(0.01)


async def refusal(scene: AttachmentScene, data: bytes, picture_limits: PictureLimits) -> str:
    store = scene.store(limits(picture_limits))
    attachment = scene.keep(data, "photo")
    assert scene.content_of(attachment) == data
    with pytest.raises(WrongInput) as wrong:
        await store.image(attachment)
    assert children() == []
    assert scene.content_of(attachment) == data
    return str(wrong.value)


async def test_a_picture_that_is_made_to_be_slow_is_given_up(scene: AttachmentScene) -> None:
    assert await refusal(scene, SLOW_JPEG, PictureLimits(cpu=300, wall=0.25)) == TOO_SLOW


async def test_the_processor_is_not_kept_busy_for_longer_than_allowed(
    scene: AttachmentScene,
) -> None:
    assert await refusal(scene, SLOW_JPEG, PictureLimits(cpu=1, wall=300)) == TOO_SLOW


async def test_memory_is_not_filled(scene: AttachmentScene) -> None:
    wide = encoded(Image.new("RGBA", (4000, 3000)), "PNG")
    assert await refusal(scene, wide, PictureLimits(memory=100 * 1024 * 1024)) == TOO_SLOW
    assert (await scene.store().image(scene.keep(wide)))[0] == "image/png"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (picture()[:-30], "photo is not a picture that can be read."),
        (
            png_bomb(50_000, 50_000),
            "photo has 2500 million pixels. Send it with at most 25 million.",
        ),
    ],
    ids=["cut off", "png bomb"],
)
async def test_a_picture_that_cannot_be_read_is_kept_and_said_to_be_so(
    scene: AttachmentScene, content: bytes, sentence: str
) -> None:
    assert await refusal(scene, content, PictureLimits()) == sentence


@pytest.mark.parametrize("media_type", ["image/jpeg", "image/png"])
async def test_honest_pictures_come_through(scene: AttachmentScene, media_type: str) -> None:
    small, large = picture(media_type), picture(media_type, (1600, 800))
    store, kept = scene.store(), scene.keep(large)
    assert await store.image(scene.keep(small)) == (media_type, small)
    shown_type, shown = await store.image(kept)
    assert scene.content_of(kept) == large, "it is kept whole and shown smaller"
    assert shown_type == ("image/jpeg" if media_type == "image/jpeg" else "image/png")
    assert opened(shown).size == (1568, 784)


async def test_a_slow_picture_keeps_nobody_waiting_and_ends_when_it_is_not_wanted(
    scene: AttachmentScene,
) -> None:
    store = scene.store(limits(PATIENT))
    slow = asyncio.create_task(store.image(scene.keep(SLOW_JPEG)))
    pid = await confined_child()

    assert scene.keep(b"words").path == "downloads/notes.txt"
    small = picture()
    assert await store.image(scene.keep(small)) == ("image/png", small)
    assert not slow.done()
    assert children() == [pid]

    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    assert children() == []


async def test_no_more_than_some_are_looked_at_together_and_others_do_not_wait_for_ever(
    scene: AttachmentScene,
) -> None:
    store = scene.store(limits(PictureLimits(cpu=300, wall=300, at_once=1, waiting=0.01)))
    slow = asyncio.create_task(store.image(scene.keep(SLOW_JPEG)))
    pid = await confined_child()
    with pytest.raises(WrongInput, match="takes too long to read"):
        await store.image(scene.keep(picture()))
    assert children() == [pid]
    slow.cancel()
    await asyncio.wait([slow])
    assert (await store.image(scene.keep(picture())))[0] == "image/png"


async def test_the_process_has_nothing_of_ours_but_the_picture(
    scene: AttachmentScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISCORD_TOKEN", "a secret")
    left_open = os.open(scene.data.paths.identity, os.O_RDONLY)
    os.set_inheritable(left_open, True)
    attachment = scene.keep(SLOW_JPEG)
    slow = asyncio.create_task(scene.store(limits(PATIENT)).image(attachment))
    pid = await confined_child()
    place = Path(f"/proc/{pid}")
    try:
        assert (place / "environ").read_bytes() == b""
        assert Path(os.readlink(place / "cwd")) == Path("/")
        opened = {entry.name: os.readlink(entry) for entry in (place / "fd").iterdir()}
        assert set(opened) == {"0", "1", "2"}
        assert opened["0"] == str(scene.data.paths.root / attachment.path)
        assert opened["1"].startswith("pipe:")
        assert opened["2"] == os.devnull
        assert os.getsid(pid) == pid
    finally:
        os.close(left_open)
        slow.cancel()
        await asyncio.wait([slow])
    assert children() == []


async def test_the_process_ends_with_the_bot(tmp_path: Path) -> None:
    (tmp_path / "photo").write_bytes(SLOW_JPEG)
    script = (
        "import asyncio; from ollim_bot.kernel.store.attachments.pictures import *\n"
        "patient = Pictures(PictureLimits(cpu=300, wall=300))\n"
        "with open('photo', 'rb') as file:\n"
        "    asyncio.run(patient.fitted('photo', 'image/jpeg', file))\n"
    )
    bot = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, cwd=tmp_path, stdout=PIPE
    )
    pid = await confined_child(bot.pid)
    bot.send_signal(signal.SIGKILL)
    await bot.wait()
    for _ in range(6000):
        if not _is_alive(pid):
            break
        await asyncio.sleep(0.01)
    assert not _is_alive(pid)


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
