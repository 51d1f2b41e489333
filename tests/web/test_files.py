"""The server hands out the files of the page and of messages, and no other files."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from tests.web.browser import Browser, raw
from tests.web.scene import Scene

from ollim_bot.domain.chat import Attachment
from ollim_bot.store.attachments.files import files_of
from ollim_bot.surfaces.web import frames
from ollim_bot.surfaces.web.surface import FOLDER

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
async def test_no_spelling_leads_out_of_the_folder(
    scene: Scene, browser: Browser, path: str
) -> None:
    """Sent as raw bytes, since an HTTP client would normalise the path."""
    right = f"Authorization: Bearer {browser.session}"
    answer = await raw(
        scene, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{right}\r\nConnection: close\r\n\r\n"
    )
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
    right = f"Authorization: Bearer {browser.session}"
    answer = await raw(
        scene, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{right}\r\nConnection: close\r\n\r\n"
    )
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
