"""Only the owner's own browser is served, from the page itself, by a secret that stays one."""

from __future__ import annotations

import re
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aiohttp
import pytest
from devtools.doubles.disks import SteppedDisk
from tests.surfaces.web.browser import Browser, raw, served, unknown_browser
from tests.surfaces.web.scene import SECRET, Scene, make_scene, running

from ollim_bot.kernel.base.errors import Unreadable, WriteFailed
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import Secret
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.surfaces.web import frames
from ollim_bot.surfaces.web.secret import (
    address,
    bot_key,
    browser_key,
    entry_code,
    new_web_secret,
    web_secret,
)

GETS = (
    "/api/messages",
    "/api/completions",
    "/api/attachments/m1/0",
    "/api/socket",
    "/api/enter",
    "/nothing",
    "/healthz/",
)

OPEN = ("/", "/static/main.js", "/healthz")

POSTS = (
    "/api/messages",
    "/api/commands",
    "/api/clicks",
    "/api/go-on",
    "/api/interrupt",
    "/api/read",
    "/",
    "/static/main.js",
    "/nothing",
)


async def test_the_browser_is_given_no_cookie_and_an_old_one_is_taken_away(scene: Scene) -> None:
    former = "ollim=" + "5a" * 32
    async with unknown_browser(scene) as browser:
        await browser.enter()
        replies = [await browser.get(path) for path in ("/", "/static/main.js", "/api/messages")]
        assert all("Set-Cookie" not in reply.headers for reply in replies)
        assert (await browser.ask("GET", "/api/messages", headers={"Cookie": former})).status == 200
        shell = await browser.get("/", Cookie=former)
    assert shell.headers["Set-Cookie"].startswith('ollim=""; ')
    assert "Max-Age=0" in shell.headers["Set-Cookie"]
    async with unknown_browser(scene) as other:
        assert (await other.get("/api/messages", Cookie=former)).status == 401


async def test_without_a_session_the_page_is_there_and_holds_nothing(scene: Scene) -> None:
    await scene.reception.say("a private word")
    async with unknown_browser(scene) as other:
        for path in OPEN:
            assert (await other.get(path)).status == 200
            assert (await other.ask("HEAD", path)).status == 200
        shell = (await other.get("/")).body.decode()
    assert "private" not in shell
    assert SECRET.reveal() not in shell


async def test_the_files_of_the_page_stand_where_nobody_could_know_before(tmp_path: Path) -> None:
    """Otherwise a program that had the port before could have left other files in the cache."""
    names = set()
    for _ in range(2):
        async with running(make_scene(tmp_path)) as scene, unknown_browser(scene) as other:
            shell = (await other.get("/")).body.decode()
            [script] = re.findall(r'src="(/static/[0-9a-f]{16}/main\.js)"', shell)
            assert not re.search(r'="/static/[^/"]*"', shell)
            assert (await other.get(script)).status == 200
            assert (await other.get("/static/0123456789abcdef/main.js")).status == 404
            names.add(script)
    assert len(names) == 2


async def test_under_a_name_that_is_not_only_ours_the_page_is_not_opened(scene: Scene) -> None:
    port = scene.surface.port
    async with unknown_browser(scene) as other:
        for host in (f"localhost:{port}", f"[::1]:{port}"):
            reply = await other.get("/?12ab", Host=host)
            assert (reply.status, reply.headers["Location"]) == (303, f"{scene.url}/")


async def test_no_service_worker_is_served_and_one_that_is_there_is_cleared_away(
    scene: Scene,
) -> None:
    async with unknown_browser(scene) as other:
        for path in ("/", "/static/main.js", "/worker.js", "/api/messages"):
            reply = await other.ask("GET", path, headers={"Service-Worker": "script"})
            assert reply.status == 404
            assert reply.headers["Clear-Site-Data"] == '"cache", "storage"'


@pytest.mark.same_fixtures
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    "value", ["", "Bearer", "Bearer ", "Bearer wrong", f"Bearer {SECRET.reveal()}", "Basic eA=="]
)
async def test_without_a_session_nothing_is_shown(scene: Scene, method: str, value: str) -> None:
    async with unknown_browser(scene) as other:
        for path in GETS:
            reply = await other.ask(method, path, headers={"Authorization": value})
            assert reply.status == 401, path
            assert method == "HEAD" or reply.error == frames.NO_KEY


@pytest.mark.same_fixtures
@pytest.mark.parametrize("path", POSTS)
async def test_without_a_session_nothing_is_done(scene: Scene, path: str) -> None:
    async with unknown_browser(scene) as other:
        assert (await other.post(path, {"line": "/clear", "id": "m1"})).status == 401
    assert scene.reception.lines == []
    assert scene.mark.value is None


async def test_the_secret_itself_opens_nothing(scene: Scene) -> None:
    async with unknown_browser(scene) as other:
        query = f"?token={SECRET.reveal()}"
        assert "Set-Cookie" not in (await other.get(f"/{query}")).headers
        assert (await other.get(f"/api/messages{query}")).status == 401
        assert (await other.post(f"/api/interrupt{query}", {})).status == 401
        for words in ({"code": SECRET.reveal()}, {"code": f"x.{SECRET.reveal()}"}):
            assert (await other.post("/api/enter", words)).status == 401


WRONG_HOSTS = (
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1.evil.example",
    "evil.example.127.0.0.1",
    "localhost.evil.example",
    "127.0.0.2",
    "0.0.0.0",
    "localhost.",
    "[::2]",
    "::1",
    "127.0.0.1@evil.example",
    "127.0.0.1:80:80",
    "127.0.0.1:port",
    "",
)


@pytest.mark.same_fixtures
@pytest.mark.parametrize("host", WRONG_HOSTS)
@pytest.mark.parametrize("path", ["/", "/healthz", "/api/messages"])
async def test_another_name_for_this_machine_is_refused(
    scene: Scene, browser: Browser, host: str, path: str
) -> None:
    host = host.format(port=scene.surface.port)
    answer = await browser.raw_get(path, host)
    assert answer.startswith(b"HTTP/1.1 403")
    assert b"OLLIM_WEB_HOSTS" in answer


async def test_a_request_with_no_name_or_with_two_is_refused(scene: Scene) -> None:
    for hosts in ("", "Host: 127.0.0.1\r\nHost: evil.example\r\n"):
        answer = await raw(scene, f"GET /healthz HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n")
        assert answer.split()[1] in (b"400", b"403")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:9000", "LOCALHOST", "[::1]:8421"])
async def test_this_machine_may_be_called_by_its_own_names_at_any_port(
    scene: Scene, host: str
) -> None:
    """A tunnel may end at another port."""
    async with unknown_browser(scene) as other:
        assert (await other.get("/healthz", Host=host)).status == 200


async def test_a_name_of_the_settings_is_known(tmp_path: Path) -> None:
    async with served(tmp_path, hosts=("ollim.example.org",)) as (_, browser):
        host = {"Host": "ollim.example.org"}
        origin = {"Origin": "https://ollim.example.org"}
        assert (await browser.ask("GET", "/api/messages", headers=host)).status == 200
        assert (
            await browser.ask("POST", "/api/interrupt", json={}, headers=host | origin)
        ).status == 200
        assert (await browser.ask("POST", "/api/interrupt", json={}, headers=origin)).status == 403
        other = {"Host": "other.example.org"}
        assert (await browser.ask("GET", "/api/messages", headers=other)).status == 403


WRONG_ORIGINS = (
    "",
    "null",
    "http://evil.example",
    "http://127.0.0.1",
    "http://127.0.0.1:1",
    "http://localhost:{port}",
    "ftp://127.0.0.1:{port}",
    "http://127.0.0.1:{port}.evil.example",
    "http://127.0.0.1:{port}/",
    "127.0.0.1:{port}",
    "file://",
)


@pytest.mark.parametrize("path", POSTS)
async def test_nothing_is_done_for_another_site_though_the_session_is_right(
    scene: Scene, browser: Browser, path: str
) -> None:
    await scene.reception.say("hello")
    for origin in WRONG_ORIGINS:
        headers = {"Origin": origin.format(port=scene.surface.port)}
        if path == "/api/messages":
            reply = await browser.send("buy this", ("x.txt", b"x"), headers=headers)
        else:
            body = {"line": "/clear", "id": "m1"}
            reply = await browser.ask("POST", path, json=body, headers=headers)
        assert (reply.status, reply.error) == (403, frames.WRONG_ORIGIN), origin
    assert (scene.reception.lines, scene.reception.received) == ([], [])
    assert scene.mark.value is None


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_other_methods_need_the_origin_too(browser: Browser, method: str) -> None:
    assert (await browser.ask(method, "/api/messages", headers={"Origin": ""})).status == 403


@pytest.mark.same_fixtures
@pytest.mark.parametrize("origin", WRONG_ORIGINS)
async def test_no_socket_for_another_site(scene: Scene, browser: Browser, origin: str) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with browser.connection(Origin=origin.format(port=scene.surface.port)):
            pass
    assert refused.value.status == 403


async def test_every_answer_carries_the_rules_for_the_browser(
    scene: Scene, browser: Browser
) -> None:
    async with unknown_browser(scene) as other:
        replies = [
            *[await browser.get(path) for path in GETS],
            await other.get("/"),
            await other.get("/static/main.js"),
            await other.post("/api/challenge", {"browser": "", "nonce": ""}),
            await other.post("/api/enter", {"code": "wrong"}),
            await browser.post("/api/interrupt", {}),
            await browser.post("/api/interrupt", {}, Origin=""),
            await other.get("/healthz"),
        ]
    assert replies[0].headers["Cache-Control"] == "no-store"
    for reply in replies:
        policy = dict(
            part.split(" ", 1) for part in reply.headers["Content-Security-Policy"].split("; ")
        )
        assert policy == {
            "default-src": "'none'",
            "script-src": "'self'",
            "style-src": "'self'",
            "img-src": "'self' data: blob:",
            "connect-src": "'self'",
            "form-action": "'none'",
            "frame-ancestors": "'none'",
            "base-uri": "'none'",
        }
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.headers["Referrer-Policy"] == "no-referrer"
        assert reply.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert reply.headers["Cache-Control"] in ("no-store", "no-cache")
        assert "Access-Control-Allow-Origin" not in reply.headers


async def test_health_is_for_everybody_and_tells_nothing_else(scene: Scene) -> None:
    async with unknown_browser(scene) as other:
        reply = await other.get("/healthz")
        assert (await other.ask("HEAD", "/healthz")).status == 200
        assert (await other.post("/healthz", {})).status == 401
    assert (reply.status, reply.json) == (
        200,
        {"status": "ok", "version": "1.2.3", "heartbeat_age": None},
    )


@pytest.fixture
def paths(tmp_path: Path) -> DataPaths:
    paths = DataPaths(tmp_path / "data")
    prepare_data_directory(paths)
    return paths


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_made_once_and_stays(paths: DataPaths) -> None:
    first = web_secret(paths)
    assert len(first.reveal()) >= 43
    assert web_secret(paths) == first
    assert mode(paths.web_token) == 0o600


def test_no_two_are_the_same(tmp_path: Path) -> None:
    made = set()
    for name in ("a", "b"):
        paths = DataPaths(tmp_path / name)
        prepare_data_directory(paths)
        made.add(web_secret(paths).reveal())
    assert len(made) == 2


def test_it_does_not_show_itself(paths: DataPaths) -> None:
    secret = web_secret(paths)
    assert secret.reveal() not in f"{secret} {secret!r}"
    shown = address(8421, entry_code(secret, "a-challenge"))
    assert re.fullmatch(r"http://127\.0\.0\.1:8421/\?[0-9a-f]{8}#a-challenge\.[\w-]{43}", shown)
    assert secret.reveal() not in shown


def test_a_new_one_takes_its_place_and_nothing_of_the_old_one_counts(paths: DataPaths) -> None:
    before = web_secret(paths)
    after = new_web_secret(paths)
    assert before != after == web_secret(paths)
    assert mode(paths.web_token) == 0o600
    assert entry_code(before, "x") != entry_code(after, "x")
    assert browser_key(before, "b", 1) != browser_key(after, "b", 1)
    assert bot_key(before, "b") != bot_key(after, "b")


def test_what_is_made_from_it_serves_one_purpose_only(paths: DataPaths) -> None:
    secret = web_secret(paths)
    made = {bot_key(secret, "b"), bot_key(secret, "b\n1"), entry_code(secret, "b").encode()}
    made |= {browser_key(secret, "b", number) for number in (1, 2)} | {browser_key(secret, "c", 1)}
    assert len(made) == 6


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"short", b"x" * 31, b"x" * 200, b"\xff" * 40, b"a b" * 20, b"x" * 40 + b"\nmore"],
)
def test_what_is_no_secret_is_made_anew(paths: DataPaths, content: bytes) -> None:
    paths.web_token.write_bytes(content)
    paths.web_token.chmod(0o644)
    made = web_secret(paths)
    assert made.reveal().encode() not in (content, content.strip())
    assert mode(paths.web_token) == 0o600
    assert web_secret(paths) == made


def test_a_secret_of_the_owners_own_is_taken(paths: DataPaths) -> None:
    paths.web_token.write_text("my-own-secret-that-is-long-enough-0123456789\n")
    assert web_secret(paths) == Secret("my-own-secret-that-is-long-enough-0123456789")


def test_a_file_that_the_disk_does_not_give_is_made_anew(paths: DataPaths) -> None:
    first = web_secret(paths)

    def refuse_reading(step: str, path: Path) -> None:
        if step == "read":
            raise PermissionError(13, "Permission denied", str(path))

    made = web_secret(paths, SteppedDisk(OsDisk(), refuse_reading))
    assert made != first
    assert web_secret(paths) == made


def test_a_link_is_not_followed_when_it_is_made_anew(paths: DataPaths, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("x")
    paths.web_token.symlink_to(elsewhere)
    web_secret(paths)
    assert elsewhere.read_text() == "x"
    assert not paths.web_token.is_symlink()


def test_a_folder_in_its_place_is_told(paths: DataPaths) -> None:
    paths.web_token.mkdir()
    with pytest.raises(Unreadable, match="is a folder"):
        web_secret(paths)


@pytest.mark.parametrize("wanted", ["write", "sync", "link"])
def test_a_disk_that_refuses_is_told_and_leaves_nothing_half_done(
    paths: DataPaths, wanted: str
) -> None:
    def refuse(step: str, path: Path) -> None:
        if step == wanted and path.parent == paths.state:
            raise OSError(28, "No space left on device", str(path))

    with pytest.raises(WriteFailed, match="No space left"):
        web_secret(paths, SteppedDisk(OsDisk(), refuse))
    assert not paths.web_token.exists()


def test_two_at_once_get_the_same(paths: DataPaths) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: web_secret(paths).reveal(), range(16)))
    assert len(set(made)) == 1
