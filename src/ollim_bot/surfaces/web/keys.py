"""Admits browsers to the page, and recognises them later.

A code from the terminal gives a browser its key, once. From then on the browser answers fresh
challenges with the key and receives a session, which it keeps in memory only. A program that has
the port while the bot is down can make the browser sign other texts, but no challenge of this
process; and no script can read the key in the browser.

At its first use after each start of the bot a browser receives its next key. A later use of an
older key means that the key was copied, by an intruder or before the intruder used it, so the
browser is shut out.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace

from ollim_bot.domain.browsers import KnownBrowser, KnownBrowsers
from ollim_bot.errors import OllimError
from ollim_bot.paths import DataPaths
from ollim_bot.ports import Clock, Disk
from ollim_bot.settings import Secret
from ollim_bot.store.codecs.records import KNOWN_BROWSERS
from ollim_bot.store.file_store import FileStore, StoreProblem
from ollim_bot.store.files import FileLock, OsDisk
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

_logger = logging.getLogger(__name__)

CODE_SECONDS = 15 * 60.0
CHALLENGE_SECONDS = 60.0
SESSION_SECONDS = 15 * 60.0
WATCH_SECONDS = 2.0

_REPLACED = (
    "A browser came to the page with a key that had been replaced, so it is shut out. Run "
    "`ollim-bot web url` to let it in again, with `--new` if somebody else may have used it."
)
_MOST_SESSIONS = 200
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
        self,
        paths: DataPaths,
        clock: Clock,
        *,
        disk: Disk | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self._paths = paths
        self._clock = clock
        self._report = report or _logger.warning
        self._store = _store(paths, disk or OsDisk(), self._report)
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
        self._challenges = Challenges(self._clock)
        self._sessions.clear()
        self._offered.clear()
        self._renewed.clear()
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
        if browser is None or not is_right:
            raise AccessDenied
        if not self._challenges.is_open(challenge, CHALLENGE_SECONDS):
            raise AccessDenied
        self._challenges.close(challenge)
        if generation < browser.generation:
            await self._forget(browser_id)
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
        return self._begun(browser_id)

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
        self._challenges = Challenges(self._clock)
        self._sessions.clear()
        self._offered.clear()
        self._renewed.clear()
        await self._keep(KnownBrowsers())
        self.ended(None)

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

    def _begun(self, browser_id: str) -> BrowserSession:
        bearer = secrets.token_urlsafe(32)
        while len(self._sessions) >= _MOST_SESSIONS:
            del self._sessions[min(self._sessions, key=lambda each: self._sessions[each][1])]
        self._sessions[_name(bearer)] = browser_id, self._clock.monotonic()
        return BrowserSession(bearer, browser_id, bot_key(self.secret, browser_id))

    async def _forget(self, browser_id: str) -> None:
        self._report(_REPLACED)
        self._sessions = {
            name: held for name, held in self._sessions.items() if held[0] != browser_id
        }
        await self._keep(self._browsers.without(browser_id))
        self.ended(browser_id)

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


def _store(paths: DataPaths, disk: Disk, report: Callable[[str], None]) -> FileStore[KnownBrowsers]:
    def told(problem: StoreProblem) -> None:
        report(str(problem))

    path = paths.web_browsers
    return FileStore(path, KNOWN_BROWSERS, FileLock(paths.lock_of(path)), disk=disk, report=told)
