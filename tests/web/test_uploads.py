"""Uploads are streamed and limited, and failed ones leave no files."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
from tests.web.browser import Browser, eventually, signed_in_browser, unknown_browser
from tests.web.scene import Scene, make_scene, running

from ollim_bot.domain.chat import Author
from ollim_bot.surfaces.web import frames
from ollim_bot.surfaces.web.refusals import WebLimits

SMALL = WebLimits(file=1000, files=2, text_characters=50, stall_seconds=0.2)
BOUNDARY = "b0undary"
FORM = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
ID = "6f1fbd4e-3c02-4b4e-9d5e-111111111111"


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[Scene]:
    """A server with small limits."""
    async with running(make_scene(tmp_path, limits=SMALL)) as scene:
        yield scene


@pytest.fixture
async def sender(small: Scene) -> AsyncIterator[Browser]:
    async with signed_in_browser(small) as sender:
        yield sender


def left_over(scene: Scene) -> list[Path]:
    return list((scene.folder / "state" / "uploads").iterdir())


async def test_files_reach_the_core_as_they_were(scene: Scene, browser: Browser) -> None:
    content = bytes(range(256)) * 5000
    reply = await browser.send("look", ("notes.txt", content), ("a.png", b"\x89PNG"))
    first, second = reply.json["message"]["attachments"]
    assert first == {
        "name": "notes.txt",
        "url": f"/api/attachments/{reply.json['message']['id']}/0",
        "is_image": False,
        "size": len(content),
    }
    assert second["is_image"]
    [kept, _] = scene.reception.messages[0].attachments
    assert (scene.folder / kept.path).read_bytes() == content
    assert left_over(scene) == []


async def test_a_file_alone_is_a_message(scene: Scene, browser: Browser) -> None:
    assert (await browser.send("", ("notes.txt", b"x"))).status == 200
    assert scene.reception.messages[0].author is Author.OWNER


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\\\Users\\\\notes.txt", "notes.txt"),
        ("/etc/passwd", "passwd"),
        ("..", "file"),
        ("a\u202eb.txt", "a b.txt"),
        ('a "b".txt', 'a "b".txt'),
        ("x" * 500 + ".txt", "x" * 116 + ".txt"),
        ("größe.txt", "größe.txt"),
    ],
)
async def test_a_name_is_a_name_and_no_path(
    scene: Scene, browser: Browser, given: str, kept: str
) -> None:
    await browser.send("look", (given, b"x"))
    [file] = scene.reception.received[0].files
    assert file.name == kept
    assert file.path.name == "0"


async def test_a_file_as_large_as_may_be_is_taken(small: Scene, sender: Browser) -> None:
    assert (await sender.send("", ("x.bin", b"x" * 1000))).status == 200
    assert small.reception.received


async def test_a_file_that_is_too_large_is_refused_by_name(small: Scene, sender: Browser) -> None:
    reply = await sender.send("", ("ok.bin", b"x"), ("x.bin", b"x" * 1001))
    assert (reply.status, reply.error) == (413, frames.file_too_large("x.bin", 1000))
    assert (small.reception.received, left_over(small)) == ([], [])


async def test_the_limit_of_a_file_is_said_in_megabytes() -> None:
    assert frames.file_too_large("x.bin", WebLimits().file) == (
        "x.bin is too large. Files can be up to 25 MB."
    )


async def test_too_many_files_are_refused(small: Scene, sender: Browser) -> None:
    files = [(f"{number}.txt", b"x") for number in range(3)]
    reply = await sender.send("", *files)
    assert (reply.status, reply.error) == (413, frames.too_many_files(2))
    assert left_over(small) == []


@pytest.mark.parametrize("text", ["x" * 51, "ü" * 51, "x" * 100_000])
async def test_a_text_that_is_too_long_is_refused(sender: Browser, text: str) -> None:
    reply = await sender.send(text)
    assert (reply.status, reply.error) == (413, frames.text_too_long(50))
    assert (await sender.send(text[:50])).status == 200


async def test_a_stranger_cannot_put_a_file_on_the_disk(scene: Scene) -> None:
    async with unknown_browser(scene) as other:
        assert (await other.send("", ("x.bin", b"x" * 100_000))).status == 401
    assert left_over(scene) == []


def part(name: str, content: str, **more: str) -> str:
    extra = "".join(f'; {key}="{value}"' for key, value in more.items())
    return (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{extra}\r\n\r\n{content}\r\n'
    )


@pytest.mark.same_fixtures
@pytest.mark.parametrize(
    "body",
    [
        pytest.param("", id="empty"),
        pytest.param("nonsense", id="no boundary"),
        pytest.param(part("id", ID), id="torn"),
        pytest.param(f"--{BOUNDARY}\r\nno header\r\n\r\nx\r\n--{BOUNDARY}--\r\n", id="bad header"),
        pytest.param(
            f"--{BOUNDARY}\r\n" + "X: y\r\n" * 500 + f"\r\nx\r\n--{BOUNDARY}--\r\n", id="headers"
        ),
        pytest.param(
            f"--{BOUNDARY}\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\r\nx\r\n"
            f"--c--\r\n--{BOUNDARY}--\r\n",
            id="nested",
        ),
        pytest.param(
            part("id", ID)
            + "".join(part(f"field{number}", "x") for number in range(10))
            + part("text", "hello")
            + f"--{BOUNDARY}--\r\n",
            id="many fields",
        ),
        pytest.param(part("_charset_", "x" * 50) + f"--{BOUNDARY}--\r\n", id="charset"),
    ],
)
async def test_a_malformed_form_is_refused(scene: Scene, browser: Browser, body: str) -> None:
    reply = await browser.ask("POST", "/api/messages", data=body.encode(), headers=FORM)
    assert reply.status == 400
    assert reply.error.endswith(".")
    assert (scene.reception.received, left_over(scene)) == ([], [])


@pytest.mark.parametrize(
    "kind",
    ["application/json", "text/plain", "multipart/mixed; boundary=x", "multipart/form-data", ""],
)
async def test_what_is_no_form_is_refused(scene: Scene, browser: Browser, kind: str) -> None:
    reply = await browser.ask("POST", "/api/messages", data=b"x", headers={"Content-Type": kind})
    assert reply.status in (400, 415)
    assert reply.error == frames.NO_FORM
    assert left_over(scene) == []


async def upload(
    scene: Scene, browser: Browser, *pieces: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A request that is not finished."""
    reader, writer = await asyncio.open_connection("127.0.0.1", scene.surface.port)
    head = (
        f"POST /api/messages HTTP/1.1\r\nHost: 127.0.0.1:{scene.surface.port}\r\n"
        f"Origin: {scene.url}\r\nAuthorization: Bearer {browser.session}\r\n"
        f"Content-Length: 1000000\r\n"
        f"Content-Type: {FORM['Content-Type']}\r\n\r\n"
    )
    writer.write("".join([head, *pieces]).encode())
    return reader, writer


async def test_an_upload_that_breaks_off_leaves_nothing_behind(
    scene: Scene, browser: Browser
) -> None:
    _, writer = await upload(
        scene, browser, part("id", ID), part("file", "x" * 50_000, filename="a")
    )
    await eventually(lambda: left_over(scene))
    writer.transport.abort()
    await eventually(lambda: not left_over(scene))
    assert scene.reception.received == []


async def test_an_upload_that_stalls_is_ended(small: Scene, sender: Browser) -> None:
    begun = part("file", "x" * 500, filename="a")[:-20]
    reader, writer = await upload(small, sender, part("id", ID), begun)
    async with asyncio.timeout(60):
        status = await reader.readline()
    writer.close()
    assert status.startswith(b"HTTP/1.1 408")
    assert left_over(small) == []


async def test_an_upload_without_end_is_ended(tmp_path: Path) -> None:
    """Each piece comes in time, but there is always another one."""
    limits = WebLimits(upload_seconds=0.3)
    async with (
        running(make_scene(tmp_path, limits=limits)) as scene,
        signed_in_browser(scene) as browser,
    ):

        async def drops() -> AsyncIterator[bytes]:
            yield part("id", ID).encode()
            while True:
                yield b"preamble\r\n"
                await asyncio.sleep(0.01)

        # The server may have hung up before the client comes to read its answer.
        with suppress(aiohttp.ClientError):
            reply = await browser.ask("POST", "/api/messages", data=drops(), headers=FORM)
            assert (reply.status, reply.error) == (408, frames.TOO_SLOW)
        assert left_over(scene) == []


async def test_a_disk_that_refuses_is_told_by_the_name_of_the_file(
    scene: Scene, browser: Browser
) -> None:
    with no_file_larger_than(1_000_000):
        reply = await browser.send("", ("x.bin", b"x" * 2_000_000))
    assert (reply.status, reply.error) == (507, frames.not_saved("x.bin", "File too large"))
    assert (scene.reception.received, left_over(scene)) == ([], [])


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """Limit file sizes of this process, so that a write fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_message_that_finds_no_place_on_the_disk_is_refused_with_the_reason(
    scene: Scene, browser: Browser
) -> None:
    folder = scene.folder / "state" / "uploads"
    folder.rmdir()
    folder.touch()
    reply = await browser.send("only words")
    assert (reply.status, reply.error) == (507, frames.not_saved("The message", "Not a directory"))
    assert scene.reception.received == []


async def test_a_folder_that_was_removed_is_made_again(scene: Scene, browser: Browser) -> None:
    (scene.folder / "state" / "uploads").rmdir()
    assert (await browser.send("", ("x.bin", b"x"))).status == 200
    assert left_over(scene) == []


async def test_what_a_crash_left_behind_is_removed_at_the_start(tmp_path: Path) -> None:
    scene = make_scene(tmp_path)
    stale = tmp_path / "state" / "uploads" / "abc"
    stale.mkdir(parents=True)
    (stale / "0").write_bytes(b"x")
    async with running(scene):
        assert left_over(scene) == []
        assert (tmp_path / "state" / "uploads").stat().st_mode & 0o777 == 0o700
