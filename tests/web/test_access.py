"""Only the owner's own browser is served, and only from the page itself."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest
from tests.web.browser import Browser, browser, cookie, raw, stranger
from tests.web.scene import SECRET, Scene, make_scene, running

from ollim_bot.settings import Secret
from ollim_bot.surfaces.web import texts

GETS = (
    "/",
    "/static/main.js",
    "/static/nothing.js",
    "/api/messages",
    "/api/completions",
    "/api/attachments/m1/0",
    "/api/socket",
    "/nothing",
    "/healthz/",
)
POSTS = (
    "/api/messages",
    "/api/commands",
    "/api/clicks",
    "/api/interrupt",
    "/api/read",
    "/",
    "/nothing",
)


async def test_the_address_lets_in_and_takes_the_secret_out_of_the_address_bar(
    scene: Scene,
) -> None:
    async with stranger(scene) as own:
        entered = await own.enter()
        assert (entered.status, entered.headers["Location"]) == (303, "/")
        assert (await own.get("/")).status == 200


async def test_the_cookie_is_for_the_page_alone_and_stays(scene: Scene) -> None:
    async with stranger(scene) as own:
        given = (await own.enter()).headers["Set-Cookie"]
    parts = [part.strip() for part in given.split(";")]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(parts)
    assert int(dict(part.split("=") for part in parts if "=" in part)["Max-Age"]) > 300 * 86400
    assert "Secure" not in parts
    assert "Domain" not in given


async def test_behind_a_proxy_with_tls_the_cookie_never_goes_out_in_the_clear(scene: Scene) -> None:
    async with stranger(scene) as own:
        path = f"/?token={SECRET.reveal()}"
        reply = await own.ask("GET", path, headers={"X-Forwarded-Proto": "https"})
    assert "Secure" in reply.headers["Set-Cookie"]


async def test_the_cookie_is_not_the_secret_and_does_not_open_the_address(scene: Scene) -> None:
    async with stranger(scene) as own:
        value = cookie(await own.enter()).partition("=")[2]
    assert SECRET.reveal() not in value
    async with stranger(scene) as other:
        assert (await other.get(f"/?token={value}")).status == 401


async def test_the_cookie_counts_after_a_restart_and_not_with_another_secret(
    tmp_path: Path,
) -> None:
    async with running(make_scene(tmp_path)) as scene, stranger(scene) as own:
        before = cookie(await own.enter())
    async with running(make_scene(tmp_path)) as scene, stranger(scene) as own:
        assert (await own.get("/", Cookie=before)).status == 200
    changed = make_scene(tmp_path, secret=Secret("another-secret-0123456789-abcdefghijk"))
    async with running(changed) as scene, stranger(scene) as own:
        assert (await own.get("/", Cookie=before)).status == 401


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    "value", ["", "ollim=", "ollim=wrong", f"ollim={SECRET.reveal()}", "other=1"]
)
async def test_without_the_right_cookie_nothing_is_shown(
    scene: Scene, method: str, value: str
) -> None:
    async with stranger(scene) as other:
        for path in GETS:
            reply = await other.ask(method, path, headers={"Cookie": value})
            assert reply.status == 401, path
            assert method == "HEAD" or reply.error == texts.NO_SECRET
            assert "Set-Cookie" not in reply.headers


@pytest.mark.parametrize("path", POSTS)
async def test_without_the_right_cookie_nothing_is_done(scene: Scene, path: str) -> None:
    async with stranger(scene) as other:
        assert (await other.post(path, {"line": "/clear", "id": "m1"})).status == 401
    assert scene.reception.lines == []
    assert scene.mark.value is None


@pytest.mark.parametrize(
    "token", ["", "wrong", SECRET.reveal()[:-1], f"{SECRET.reveal()}x", "%00", "ü", "%ff"]
)
async def test_a_wrong_token_lets_nobody_in(scene: Scene, token: str) -> None:
    async with stranger(scene) as other:
        reply = await other.get(f"/?token={token}")
    assert reply.status == 401
    assert "Set-Cookie" not in reply.headers


async def test_the_token_counts_at_the_door_alone(scene: Scene) -> None:
    async with stranger(scene) as other:
        query = f"?token={SECRET.reveal()}"
        assert (await other.get(f"/api/messages{query}")).status == 401
        assert (await other.post(f"/{query}", {})).status == 401
        assert (await other.post(f"/api/interrupt{query}", {})).status == 401


async def test_who_opens_the_page_by_hand_reads_a_plain_sentence(scene: Scene) -> None:
    async with stranger(scene) as other:
        reply = await other.get("/", Accept="text/html,application/xhtml+xml")
    assert reply.headers["Content-Type"].startswith("text/plain")
    assert reply.body.decode() == f"{texts.NO_SECRET}\n"
    assert "ollim-bot web url" in texts.NO_SECRET


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


@pytest.mark.parametrize("host", WRONG_HOSTS)
@pytest.mark.parametrize("path", ["/", "/healthz", "/?token=TOKEN"])
async def test_another_name_for_this_machine_is_refused(scene: Scene, host: str, path: str) -> None:
    async with stranger(scene) as own:
        right = cookie(await own.enter())
    host = host.format(port=scene.surface.port)
    path = path.replace("TOKEN", SECRET.reveal())
    answer = await raw(
        scene,
        f"GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {right}\r\nConnection: close\r\n\r\n",
    )
    assert answer.startswith(b"HTTP/1.1 403")
    assert b"Set-Cookie" not in answer
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
    async with stranger(scene) as other:
        assert (await other.get("/healthz", Host=host)).status == 200


async def test_a_name_of_the_settings_is_known(tmp_path: Path) -> None:
    async with (
        running(make_scene(tmp_path, hosts=("ollim.example.org",))) as scene,
        browser(scene) as own,
    ):
        host = {"Host": "ollim.example.org"}
        origin = {"Origin": "https://ollim.example.org"}
        assert (await own.ask("GET", "/api/messages", headers=host)).status == 200
        assert (
            await own.ask("POST", "/api/interrupt", json={}, headers=host | origin)
        ).status == 200
        assert (await own.ask("POST", "/api/interrupt", json={}, headers=origin)).status == 403
        other = {"Host": "other.example.org"}
        assert (await own.ask("GET", "/api/messages", headers=other)).status == 403


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
async def test_nothing_is_done_for_another_site_though_the_cookie_comes_along(
    scene: Scene, own: Browser, path: str
) -> None:
    await scene.reception.say("hello")
    for origin in WRONG_ORIGINS:
        headers = {"Origin": origin.format(port=scene.surface.port)}
        if path == "/api/messages":
            reply = await own.send("buy this", ("x.txt", b"x"), headers=headers)
        else:
            body = {"line": "/clear", "id": "m1"}
            reply = await own.ask("POST", path, json=body, headers=headers)
        assert (reply.status, reply.error) == (403, texts.WRONG_ORIGIN), origin
    assert (scene.reception.lines, scene.reception.received) == ([], [])
    assert scene.mark.value is None


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_other_methods_need_the_origin_too(own: Browser, method: str) -> None:
    assert (await own.ask(method, "/api/messages", headers={"Origin": ""})).status == 403


@pytest.mark.parametrize("origin", WRONG_ORIGINS)
async def test_no_socket_for_another_site(scene: Scene, own: Browser, origin: str) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with own.connection(Origin=origin.format(port=scene.surface.port)):
            pass
    assert refused.value.status == 403


async def test_no_socket_without_the_cookie(scene: Scene) -> None:
    async with stranger(scene) as other:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with other.connection():
                pass
    assert refused.value.status == 401


async def test_every_answer_carries_the_rules_for_the_browser(scene: Scene, own: Browser) -> None:
    async with stranger(scene) as other:
        replies = [
            *[await own.get(path) for path in GETS],
            await other.get("/"),
            await other.enter(),
            await own.post("/api/interrupt", {}),
            await own.post("/api/interrupt", {}, Origin=""),
            await other.get("/healthz"),
        ]
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


async def test_private_answers_are_not_stored(own: Browser) -> None:
    assert (await own.get("/api/messages")).headers["Cache-Control"] == "no-store"


async def test_health_is_for_everybody_and_tells_nothing_else(scene: Scene) -> None:
    async with stranger(scene) as other:
        reply = await other.get("/healthz")
        assert (await other.ask("HEAD", "/healthz")).status == 200
        assert (await other.post("/healthz", {})).status == 401
    assert (reply.status, reply.json) == (
        200,
        {"status": "ok", "version": "1.2.3", "heartbeat_age": None},
    )
