"""Who may use the page: the keys of browsers, the check of each request, and how it is refused."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import NotFound, OllimError, WrongInput
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import Secret
from ollim_bot.kernel.base.text import with_program
from ollim_bot.kernel.store.codecs.record_codecs import KNOWN_BROWSERS
from ollim_bot.kernel.store.file_store import FileStore
from ollim_bot.kernel.store.files import FileLock, OsDisk
from ollim_bot.kernel.values.ports import Status
from ollim_bot.kernel.values.surface_state import KnownBrowser, KnownBrowsers
from ollim_bot.surfaces.web import frames
from ollim_bot.surfaces.web.frames import RequestRefused
from ollim_bot.surfaces.web.secret import (
    bot_key,
    browser_key,
    decoded,
    encoded,
    entry_code,
    is_equal,
    kept_secret,
    mac,
    web_secret,
)

_STATUSES: Mapping[type[OllimError], int] = {WrongInput: 400, NotFound: 404}
STATUS: web.AppKey[Callable[[], Status]] = web.AppKey("status")


def refusal(request: web.BaseRequest, status: int, sentence: str) -> web.Response:
    """Answer in JSON, or in plain text for an address that was opened by hand."""
    if "text/html" in request.headers.get("Accept", ""):
        return web.Response(status=status, text=f"{sentence}\n")
    return web.json_response({"error": sentence}, status=status)


@web.middleware
async def refusals_in_shape(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every error of a handler into a refusal."""
    try:
        return await handler(request)
    except ConnectionError:
        raise
    except Exception as error:  # no detail of an error may reach a stranger
        if request.writer.output_size:
            # The answer has begun, or a socket is open: only closing is left.
            _logger.exception("An answer to the page broke off")
            raise ConnectionAbortedError from error
        return _said(request, error)


def _said(request: web.Request, error: Exception) -> web.Response:
    match error:
        case RequestRefused():
            return refusal(request, error.status, error.sentence)
        case OllimError():
            status = next(
                (code for kind, code in _STATUSES.items() if isinstance(error, kind)), 503
            )
            return refusal(request, status, with_program(str(error), request.app[STATUS]().program))
        case web.HTTPMethodNotAllowed():
            allowed = sorted(error.allowed_methods)
            answer = refusal(request, 405, frames.wrong_method(", ".join(allowed)))
            answer.headers["Allow"] = ", ".join(allowed)
            return answer
        case web.HTTPNotFound():
            return refusal(request, 404, frames.NOT_FOUND)
        case web.HTTPException():
            return refusal(request, error.status, frames.NOT_UNDERSTOOD)
        case _:
            _logger.error("A request of the page failed", exc_info=error)
            return refusal(request, 500, frames.FAILED)


_MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class WebLimits:
    """`file` and `body` are in bytes."""

    file: int = 25 * _MEGABYTE
    files: int = 10
    text_characters: int = 100_000
    body: int = 64 * 1024
    body_seconds: float = 15
    stall_seconds: float = 30
    upload_seconds: float = 30 * 60
    idle_seconds: float = 30
    linger_seconds: float = 2
    connections: int = 300
    strangers: int = 100
    stranger_seconds: float = 20
    hello_seconds: float = 15
    entrance_seconds: float = 5
    heartbeat_seconds: float = 20
    tabs: int = 40
    queued_frames: int = 400
    missed_messages: int = 200


_logger = logging.getLogger(__name__)

CODE_SECONDS = 15 * 60.0
CHALLENGE_SECONDS = 60.0
SESSION_SECONDS = 15 * 60.0
WATCH_SECONDS = 2.0

_REPLACED = (
    "A browser came to the page with a key that had been replaced, so it is shut out. Run "
    "`ollim-bot web url` to let it in again, with `--new` if somebody else may have used it."
)
_TIME_BYTES, _RANDOM_BYTES, _SEAL_BYTES = 8, 12, 16


@dataclass(frozen=True, slots=True)
class BrowserKey:
    """The key of a browser, which stores it where it cannot be read again."""

    browser: str
    generation: int
    key: bytes


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """`bot_key` is how the page recognises the bot."""

    bearer: str
    browser: str
    bot_key: bytes


class AccessDenied(Exception):
    """The browser is unknown, or no longer known."""


class Challenges:
    """Challenges of this process. An answer to a challenge of another process is invalid."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seal_key = secrets.token_bytes(32)
        self._answered: dict[str, float] = {}

    def make(self) -> str:
        """Make a fresh challenge. None is stored, so many requests cost no memory."""
        now = int(self._clock.monotonic() * 1000).to_bytes(_TIME_BYTES, "big", signed=True)
        body = now + secrets.token_bytes(_RANDOM_BYTES)
        return encoded(body + self._seal(body))

    def is_open(self, challenge: str, seconds: float) -> bool:
        """Whether this process made it, at most `seconds` ago, and it is unanswered."""
        try:
            raw = decoded(challenge)
        except ValueError:
            return False
        body, seal = raw[:-_SEAL_BYTES], raw[-_SEAL_BYTES:]
        if not hmac.compare_digest(seal, self._seal(body)) or encoded(raw) != challenge:
            return False
        made = int.from_bytes(body[:_TIME_BYTES], "big", signed=True) / 1000
        return challenge not in self._answered and self._clock.monotonic() - made <= seconds

    def close(self, challenge: str) -> None:
        """Mark it as answered: it cannot be answered a second time."""
        now = self._clock.monotonic()
        longest = max(CODE_SECONDS, CHALLENGE_SECONDS)
        self._answered = {
            each: since for each, since in self._answered.items() if now - since <= longest
        }
        self._answered[challenge] = now

    def _seal(self, body: bytes) -> bytes:
        return hmac.digest(self._seal_key, body, hashlib.sha256)[:_SEAL_BYTES]


class BrowserKeys:
    """The keys and sessions of the browsers.

    `ended` is called with the browser whose sessions have ended, or with None for all of them;
    `report` with a sentence for the owner. If the disk refuses a write, the change holds until the
    next start.
    """

    def __init__(
        self, paths: DataPaths, clock: Clock, *, report: Callable[[str], None] | None = None
    ) -> None:
        self._paths = paths
        self._clock = clock
        self._report = report or _logger.warning
        path = paths.web_browsers
        self._store = FileStore(
            path,
            KNOWN_BROWSERS,
            FileLock(paths.lock_of(path)),
            disk=OsDisk(),
            report=lambda problem: self._report(str(problem)),
        )
        self._secret: Secret | None = None
        self._file: tuple[int, int] | None = None
        self._browsers = KnownBrowsers()
        self._challenges = Challenges(clock)
        self._sessions: dict[str, tuple[str, float]] = {}
        self._offered: dict[str, int] = {}
        self._renewed: set[str] = set()
        self.ended: Callable[[str | None], None] = lambda _: None

    @property
    def secret(self) -> Secret:
        assert self._secret is not None, "not opened yet"
        return self._secret

    async def open(self) -> None:
        """Load the secret and the known browsers; call it before the port is bound."""
        self._end_sessions()
        self._secret = await asyncio.to_thread(web_secret, self._paths)
        self._file = await asyncio.to_thread(self._stamp)
        try:
            self._browsers = await asyncio.to_thread(self._store.read)
        except OllimError as refused:
            _logger.warning("The page knows none of its browsers: %s", refused)
            self._browsers = KnownBrowsers()

    def code(self) -> str:
        return entry_code(self.secret, self._challenges.make())

    async def challenge(self, browser: str, nonce: str) -> tuple[str, str]:
        """A fresh challenge, and the proof for a known browser that it is ours."""
        await self.look()
        challenge = self._challenges.make()
        return challenge, mac(bot_key(self.secret, browser), "challenge", challenge, nonce)

    def proof_on_socket(self, browser: str, nonce: str) -> str:
        return mac(bot_key(self.secret, browser), "socket", nonce)

    async def enter(self, code: str) -> BrowserKey:
        """The key of a new browser. Raises `AccessDenied` for a wrong, used or old code."""
        await self.look()
        challenge = code.partition(".")[0]
        is_right = is_equal(code, entry_code(self.secret, challenge))
        if not (is_right and self._challenges.is_open(challenge, CODE_SECONDS)):
            raise AccessDenied
        self._challenges.close(challenge)
        browser = KnownBrowser(secrets.token_urlsafe(12), 1, self._clock.now())
        self._renewed.add(browser.id)
        await self._keep(self._browsers.adding(browser))
        return self._key_of(browser)

    async def prove(
        self, browser_id: str, generation: int, challenge: str, proof: str
    ) -> BrowserSession | BrowserKey:
        """Return a session, or the next key, with which the browser must come again.

        Raises `AccessDenied`.
        """
        await self.look()
        now = self._clock.now()
        browser = self._browsers.find(browser_id, now)
        key = browser_key(self.secret, browser_id, generation)
        is_right = is_equal(proof, mac(key, "session", challenge))
        is_open = self._challenges.is_open(challenge, CHALLENGE_SECONDS)
        if browser is None or not (is_right and is_open):
            raise AccessDenied
        self._challenges.close(challenge)
        if generation < browser.generation:
            self._report(_REPLACED)
            self._sessions = {
                name: held for name, held in self._sessions.items() if held[0] != browser_id
            }
            await self._keep(self._browsers.without(browser_id))
            self.ended(browser_id)
            raise AccessDenied
        if generation > browser.generation:
            # Only this bot can have made the newer key.
            browser = replace(browser, generation=generation)
            await self._keep(self._browsers.adding(replace(browser, used=now)))
            if self._offered.pop(browser_id, None) == generation:
                self._renewed.add(browser_id)
        if browser_id not in self._renewed:
            self._offered[browser_id] = generation + 1
            return self._key_of(replace(browser, generation=generation + 1))
        await self._keep(self._browsers.used(browser_id, now))
        bearer = secrets.token_urlsafe(32)
        while len(self._sessions) >= 200:
            del self._sessions[min(self._sessions, key=lambda each: self._sessions[each][1])]
        self._sessions[_name(bearer)] = browser_id, self._clock.monotonic()
        return BrowserSession(bearer, browser_id, bot_key(self.secret, browser_id))

    def browser_of(self, bearer: str) -> str | None:
        """The browser of a session, which this use prolongs."""
        now = self._clock.monotonic()
        name = _name(bearer)
        browser, used = self._sessions.get(name, ("", now))
        if not browser or now - used > SESSION_SECONDS:
            self._sessions.pop(name, None)
            return None
        self._sessions[name] = browser, now
        return browser

    async def watch(self, in_use: Callable[[], set[str]]) -> None:
        """Watch for a new secret, and count an open tab as use of its browser."""
        while True:
            await self._clock.sleep(WATCH_SECONDS)
            await self.look()
            now = self._clock.now()
            browsers = self._browsers
            for browser in in_use():
                browsers = browsers.used(browser, now)
            await self._keep(browsers)

    async def look(self) -> None:
        """End every session if `ollim-bot web url --new` has replaced the secret."""
        found, stamp = await asyncio.to_thread(self._look)
        if found is None or found == self._secret:
            self._file = stamp
            return
        self._secret, self._file = found, stamp
        self._end_sessions()
        await self._keep(KnownBrowsers())
        self.ended(None)

    def _end_sessions(self) -> None:
        self._challenges = Challenges(self._clock)
        self._sessions.clear()
        self._offered.clear()
        self._renewed.clear()

    def _look(self) -> tuple[Secret | None, tuple[int, int] | None]:
        try:
            stamp = self._stamp()
        except OSError:
            return None, self._file
        if stamp is not None and stamp == self._file:
            return None, stamp
        found = kept_secret(self._paths)
        if found is None and stamp is None:
            try:
                found = web_secret(self._paths)
                stamp = self._stamp()
            except (OllimError, OSError):
                return None, self._file
        return found, stamp

    def _stamp(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._paths.web_token)
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns

    def _key_of(self, browser: KnownBrowser) -> BrowserKey:
        key = browser_key(self.secret, browser.id, browser.generation)
        return BrowserKey(browser.id, browser.generation, key)

    async def _keep(self, browsers: KnownBrowsers) -> None:
        if browsers == self._browsers:
            return
        self._browsers = browsers
        try:
            # Reads the newest value: of two concurrent writes the older must not win.
            await asyncio.to_thread(self._store.transact, lambda _: (self._browsers, None))
        except OllimError as refused:
            _logger.warning("What the page knows of its browsers is not kept: %s", refused)


def _name(bearer: str) -> str:
    """Sessions are looked up by a hash, so that the lookup time reveals nothing about a bearer."""
    return hashlib.sha256(bearer.encode("utf-8", "replace")).hexdigest()


HEALTH = "/healthz"
SOCKET = "/api/socket"
PROTOCOL = "ollim"
BROWSER = web.RequestKey("browser", str)

_ENTER = "/api/enter"
_CHALLENGE = "/api/challenge"
_SESSION = "/api/session"
_ENTRANCES = (_ENTER, _CHALLENGE, _SESSION)
# Browsers that an earlier version admitted still have this cookie, and send it to other ports too.
_FORMER_COOKIE = "ollim"
_SOCKET_SESSION = "ollim.session."
_LARGEST_ENTRANCE = 4096
_LONGEST_TEXT = 512
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_HOST = re.compile(r"(\[::1\]|[a-z0-9.-]+)(:[0-9]{1,5})?")
_HARMLESS = ("GET", "HEAD")
# Shows what a change would lead to, and changes nothing.
_PREVIEWS = "/previews"
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class AccessControl:
    """Checks every request. `trust` is called with each request that is admitted.

    `shells` are the addresses that answer the page itself, which holds no data.
    """

    def __init__(
        self,
        keys: BrowserKeys,
        hosts: Sequence[str],
        shells: re.Pattern[str],
        limits: WebLimits,
        trust: Callable[[web.Request], None] = lambda _: None,
    ) -> None:
        self._keys = keys
        self._hosts = frozenset((*_LOOPBACK, *hosts))
        self.shells = shells
        self._limits = limits
        self._trust = trust

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post(_ENTER, self._enter),
            web.post(_CHALLENGE, self._challenge),
            web.post(_SESSION, self._session),
        ]

    @web.middleware
    async def admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        # A site may resolve other names here (DNS rebinding).
        given = request.headers.getall("Host", [])
        found = _HOST.fullmatch(given[0].lower()) if len(given) == 1 else None
        host = found[1] if found is not None and found[1] in self._hosts else None
        if host is None:
            raise RequestRefused(403, frames.WRONG_HOST)
        if "Service-Worker" in request.headers:
            # Remove service workers: the page has none, so another program at the port left it.
            return web.Response(status=404, headers={"Clear-Site-Data": '"cache", "storage"'})
        is_harmless = request.method in _HARMLESS
        if is_harmless and self.shells.fullmatch(request.path):
            # `localhost` may lead to `::1`, where another program may have the port; so the browser
            # must not store anything under that name.
            if host in _LOOPBACK[1:] and "X-Forwarded-Proto" not in request.headers:
                port = request.headers["Host"].lower().removeprefix(host)
                place = f"http://127.0.0.1{port}{request.path}"
                return web.Response(status=303, headers={"Location": place})
            return await handler(request)
        if is_harmless and (request.path == HEALTH or request.path.startswith("/static/")):
            return await handler(request)
        is_entrance = request.method == "POST" and request.path in _ENTRANCES
        browser = None if is_entrance else self._keys.browser_of(_bearer(request))
        if browser is None and not is_entrance:
            raise RequestRefused(401, frames.NO_KEY)
        can_do_something = not is_harmless or request.path == SOCKET
        origins = [each.lower() for each in request.headers.getall("Origin", [])]
        own = request.headers.get("Host", "").lower()
        if can_do_something and origins not in ([f"http://{own}"], [f"https://{own}"]):
            raise RequestRefused(403, frames.WRONG_ORIGIN)
        if browser is not None:
            request[BROWSER] = browser
            self._trust(request)
        return await handler(request)

    async def _enter(self, request: web.Request) -> web.Response:
        [code] = await self._texts(request, "code")
        try:
            given = await self._keys.enter(code)
        except AccessDenied:
            raise RequestRefused(401, frames.USED_ADDRESS) from None
        return _with_empty_cache(web.json_response(_key_json(given)))

    async def _challenge(self, request: web.Request) -> web.Response:
        browser, nonce = await self._texts(request, "browser", "nonce")
        challenge, proof = await self._keys.challenge(browser, nonce)
        return web.json_response({"challenge": challenge, "proof": proof})

    async def _session(self, request: web.Request) -> web.Response:
        names = ("browser", "generation", "challenge", "proof")
        browser, generation, challenge, proof = await self._texts(request, *names)
        if not re.fullmatch(r"[1-9][0-9]{0,8}", generation, re.ASCII):
            raise RequestRefused(400, frames.NOT_UNDERSTOOD)
        try:
            given = await self._keys.prove(browser, int(generation), challenge, proof)
        except AccessDenied:
            raise RequestRefused(401, frames.NO_KEY) from None
        if isinstance(given, BrowserSession):
            return web.json_response({"session": given.bearer, "bot": encoded(given.bot_key)})
        return _with_empty_cache(web.json_response({"next": _key_json(given)}))

    async def _texts(self, request: web.Request, *names: str) -> list[str]:
        """Read the named texts of an unauthenticated request, within a size and a time limit."""
        if (request.content_length or 0) > _LARGEST_ENTRANCE:
            raise RequestRefused(413, frames.NOT_UNDERSTOOD)
        try:
            async with asyncio.timeout(self._limits.entrance_seconds):
                body = json.loads(await request.read())
        except TimeoutError:
            raise RequestRefused(408, frames.TOO_SLOW) from None
        except (ValueError, RecursionError, web.HTTPRequestEntityTooLarge):
            body = None
        given = [body.get(name) for name in names] if isinstance(body, dict) else [None]
        if not all(isinstance(text, str) and len(text) <= _LONGEST_TEXT for text in given):
            raise RequestRefused(400, frames.NOT_UNDERSTOOD)
        return [str(text) for text in given]


async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["Server"] = "ollim-bot"


def forget_former_cookie(request: web.Request, response: web.StreamResponse) -> None:
    # Anybody can send cookies, and to parse many takes long.
    if f"{_FORMER_COOKIE}=" in request.headers.get("Cookie", ""):
        response.del_cookie(_FORMER_COOKIE, path="/", httponly=True, samesite="Strict")


def _with_empty_cache(answer: web.Response) -> web.Response:
    """Clear the browser's cache: another program at the port may have left pages in it."""
    answer.headers["Clear-Site-Data"] = '"cache"'
    return answer


def _bearer(request: web.Request) -> str:
    """The session of the request; on a socket, a browser can only set the protocol header."""
    if request.path == SOCKET:
        offered = request.headers.get("Sec-WebSocket-Protocol", "")
        words = [word.strip() for word in offered.split(",")]
        return next(
            (w.removeprefix(_SOCKET_SESSION) for w in words if w.startswith(_SOCKET_SESSION)), ""
        )
    kind, _, value = request.headers.get("Authorization", "").partition(" ")
    return value if kind == "Bearer" else ""


def _key_json(given: BrowserKey) -> dict[str, object]:
    return {"browser": given.browser, "generation": given.generation, "key": encoded(given.key)}


def refusing_changes(read_only: Callable[[], str]) -> Middleware:
    """Refuse each request that would change something, with the sentence of `read_only`."""

    @web.middleware
    async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
        is_entrance = request.path in _ENTRANCES or request.path.endswith(_PREVIEWS)
        if request.method not in _HARMLESS and not is_entrance:
            raise RequestRefused(503, read_only())
        return await handler(request)

    return admit
