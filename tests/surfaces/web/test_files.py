"""Files of the page and of messages, and no others; uploads are streamed and limited."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
from bench.views import page_bytes
from tests.patience import eventually
from tests.surfaces.web.browser import Browser, served, signed_in_browser, unknown_browser
from tests.surfaces.web.scene import Scene, make_scene, running

from ollim_bot.kernel.store.attachments.attachment_files import files_of
from ollim_bot.kernel.values.chat import Attachment, Author
from ollim_bot.surfaces.web import frames
from ollim_bot.surfaces.web.access import WebLimits
from ollim_bot.surfaces.web.page import FOLDER

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


async def test_the_page_and_its_files_have_their_types(browser: Browser) -> None:
    page = await browser.get("/")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"<!doctype html>" in page.body.lower()
    script = await browser.get("/static/main.js")
    assert script.headers["Content-Type"] == "text/javascript; charset=utf-8"


async def test_every_file_of_the_folder_can_be_had(browser: Browser) -> None:
    names = [path.name for path in FOLDER.iterdir() if path.is_file()]
    assert "main.js" in names
    for name in names:
        reply = await browser.get(f"/static/{name}")
        assert (reply.status, reply.body) == (200, (FOLDER / name).read_bytes())


async def test_a_file_that_did_not_change_is_not_sent_again(browser: Browser) -> None:
    path = "/static/main.js"
    first = await browser.get(path)
    assert first.headers["Cache-Control"] == "no-cache"
    tag = first.headers["ETag"]
    again = await browser.ask("GET", path, headers={"If-None-Match": tag})
    assert (again.status, again.body, again.headers["ETag"]) == (304, b"", tag)
    other = await browser.ask("GET", path, headers={"If-None-Match": '"other"'})
    assert other.status == 200


async def test_a_file_of_this_start_is_asked_for_once(browser: Browser) -> None:
    shell = (await browser.get("/")).body.decode()
    [script] = re.findall(r'src="(/static/[0-9a-f]{16}/main\.js)"', shell)
    assert "immutable" in (await browser.get(script)).headers["Cache-Control"]


TRICKS = (
    "/static/../surface.py",
    "/static/..%2fsurface.py",
    "/static/%2e%2e/surface.py",
    "/static/%2e%2e%2fsurface.py",
    "/static/..%5csurface.py",
    "/static/..%2fstatic%2fmain.js",
    "/static/.%2fmain.js",
    "/static/....//surface.py",
    "/static/%252e%252e%252fsurface.py",
    "/static//etc/passwd",
    "/static/%2fetc%2fpasswd",
    "/static/main.js%00",
    "/static/main.js/",
    "/static/./main.js/../../surface.py",
    "/static/",
    "/static",
    "/static/.",
    "/static/..",
    "/static/MAIN.JS",
    "/../../../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
)


@pytest.mark.same_fixtures
@pytest.mark.parametrize("path", TRICKS)
async def test_no_spelling_leads_out_of_the_folder(browser: Browser, path: str) -> None:
    answer = await browser.raw_get(path)
    assert answer.split()[1] in (b"404", b"400")
    assert b"import" not in answer
    assert b"root:" not in answer


async def test_an_attachment_is_sent_as_it_was(browser: Browser) -> None:
    content = bytes(range(256)) * 3000
    sent = (await browser.send("", ('größe "x".html', content))).json["message"]
    url = sent["attachments"][0]["url"]
    reply = await browser.get(url)
    assert (reply.status, reply.body) == (200, content)
    assert reply.headers["Content-Length"] == str(len(content))
    assert reply.headers["Content-Type"] == "application/octet-stream"
    assert reply.headers["Content-Disposition"] == (
        "attachment; filename*=UTF-8''gr%C3%B6%C3%9Fe%20%22x%22.html"
    )
    assert (await browser.ask("HEAD", url)).headers["Content-Length"] == str(len(content))


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0" + b"\0" * 20, "image/jpeg"),
        (b"GIF89a" + b"\0" * 20, "image/gif"),
        (b"RIFF\0\0\0\0WEBP" + b"\0" * 20, "image/webp"),
    ],
)
async def test_an_image_is_shown_by_what_it_is_whatever_its_name(
    browser: Browser, start: bytes, kind: str
) -> None:
    sent = (await browser.send("", ("page.html", start))).json["message"]
    reply = await browser.get(sent["attachments"][0]["url"])
    assert reply.headers["Content-Type"] == kind
    assert reply.headers["Content-Disposition"].startswith("inline")
    assert reply.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert reply.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "content",
    [
        b"<script>alert(1)</script>",
        b"<svg xmlns='http://www.w3.org/2000/svg' onload='x'/>",
        b"",
        b"%PDF-1.4",
    ],
)
async def test_what_only_says_that_it_is_an_image_is_to_be_saved(
    browser: Browser, content: bytes
) -> None:
    sent = (await browser.send("", ("photo.png", content))).json["message"]
    reply = await browser.get(sent["attachments"][0]["url"])
    assert (reply.status, reply.body) == (200, content)
    assert reply.headers["Content-Type"] == "application/octet-stream"
    assert reply.headers["Content-Disposition"].startswith("attachment")


async def shown(scene: Scene, browser: Browser, path: str) -> int:
    """The status of a request for an attachment whose message names this path."""
    message = await scene.reception.say("x", attachments=(Attachment("x", path, "text/plain", 1),))
    reply = await browser.get(f"/api/attachments/{message.id}/0")
    if reply.status != 200:
        assert reply.error == frames.NO_ATTACHMENT
    return reply.status


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "downloads/../secret.txt",
        "downloads/../../secret.txt",
        ".env",
        ".git/config",
        "notes/.hidden",
        "state/web_token",
        "STATE/web_token",
        "state/attachments/../web_token",
        "{root}/downloads/ok.txt",
        "/etc/passwd",
        "downloads",
        "downloads/",
        "downloads/folder",
        "downloads/link.txt",
        "downloads/linked/secret.txt",
        "downloads/gone.txt",
        "downloads/pipe",
        "downloads/x\0y",
        "",
        ".",
    ],
)
async def test_no_path_leads_outside_or_to_what_is_hidden_or_kept_in_state(
    scene: Scene, browser: Browser, path: str
) -> None:
    downloads = scene.folder / "downloads"
    for folder in (downloads / "folder", scene.folder / "notes", scene.folder / ".git"):
        folder.mkdir(parents=True)
    for name in ("secret.txt", ".env", ".git/config", "notes/.hidden"):
        (scene.folder / name).write_text("secret")
    (scene.folder.parent / "secret.txt").write_text("secret")
    (scene.folder / "state" / "web_token").write_text("secret")
    (downloads / "ok.txt").write_text("ok")
    (downloads / "link.txt").symlink_to(scene.folder / "secret.txt")
    (downloads / "linked").symlink_to(scene.folder)
    os.mkfifo(downloads / "pipe")
    assert await shown(scene, browser, "downloads/ok.txt") == 200
    assert await shown(scene, browser, path.format(root=scene.folder)) == 404


async def test_a_file_that_the_bot_sent_and_a_picture_that_is_kept_can_be_had(
    scene: Scene, browser: Browser
) -> None:
    for path in ("notes/plan.md", "state/attachments/cat.png"):
        file = scene.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
        assert await shown(scene, browser, path) == 200


@pytest.mark.parametrize(
    "path",
    [
        "/api/attachments/%2e%2e/0",
        "/api/attachments/..%2f..%2fetc%2fpasswd/0",
        "/api/attachments/m1/0/../../../../etc/passwd",
        "/api/attachments//0",
        "/api/attachments/m1/00000000000",
    ],
)
async def test_no_spelling_of_an_address_leads_to_another_file(
    scene: Scene, browser: Browser, path: str
) -> None:
    await scene.reception.say("x")
    answer = await browser.raw_get(path)
    assert answer.split()[1] == b"404"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "downloads" / "a").mkdir(parents=True)
    (tmp_path / "downloads" / "a" / "x").write_text("x")
    opened = files_of(tmp_path, tmp_path / "state" / "attachments")
    before = len(os.listdir("/proc/self/fd"))
    opened(Attachment("x", "downloads/a/x", "text/plain", 1)).close()
    for path in ("downloads/a/y", "downloads/b/x", "downloads/a/x/y"):
        with pytest.raises(OSError, match=r"."):
            opened(Attachment("x", path, "text/plain", 1))
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_conversation_each_view_and_all_of_the_page_keep_within_their_bytes() -> None:
    found = page_bytes()
    assert len(found) > 10
    assert [f"{row.measure}: {row.amount}" for row in found if not row.passes] == []


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
        "",
        "nonsense",
        part("id", ID),
        f"--{BOUNDARY}\r\nno header\r\n\r\nx\r\n--{BOUNDARY}--\r\n",
        f"--{BOUNDARY}\r\n" + "X: y\r\n" * 500 + f"\r\nx\r\n--{BOUNDARY}--\r\n",
        (
            f"--{BOUNDARY}\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\r\nx\r\n"
            f"--c--\r\n--{BOUNDARY}--\r\n"
        ),
        part("id", ID)
        + "".join(part(f"field{number}", "x") for number in range(10))
        + part("text", "hello")
        + f"--{BOUNDARY}--\r\n",
        part("_charset_", "x" * 50) + f"--{BOUNDARY}--\r\n",
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
    async with served(tmp_path, limits=limits) as (scene, browser):

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
