"""The sign-in protocol of the page, for tests that are not a real browser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import aiohttp

from ollim_bot.kernel.base.settings import Secret
from ollim_bot.surfaces.web.secret import bot_key, decoded, entry_code, is_equal, mac

NONCE = "any-nonce"


class AccessDenied(AssertionError):
    def __init__(self, status: int, answer: Any) -> None:
        super().__init__(status, answer)
        self.status = status
        self.answer = answer


@dataclass
class BrowserKey:
    """What a browser keeps between visits. A real browser cannot read `key`."""

    browser: str
    generation: int
    key: bytes

    def proof(self, challenge: str) -> str:
        return mac(self.key, "session", challenge)


class SignInClient:
    """Makes the requests that sign a browser in at the bot."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self._url = url

    async def ask(self, path: str, **words: object) -> Any:
        headers = {"Origin": self._url}
        async with self._http.post(f"{self._url}{path}", json=words, headers=headers) as response:
            answer = await response.json()
            if response.status != 200:
                raise AccessDenied(response.status, answer)
            return answer

    async def challenge(self, browser: str = "") -> str:
        answer = await self.ask("/api/challenge", browser=browser, nonce=NONCE)
        return str(answer["challenge"])

    async def code(self, secret: Secret) -> str:
        """An entry code, made the way `ollim-bot web url` makes it."""
        answer = await self.ask("/api/challenge", browser="terminal", nonce=NONCE)
        right = mac(bot_key(secret, "terminal"), "challenge", answer["challenge"], NONCE)
        assert is_equal(answer["proof"], right)
        return entry_code(secret, answer["challenge"])

    async def enter(self, code: str) -> BrowserKey:
        return _key(await self.ask("/api/enter", code=code))

    async def answer(self, key: BrowserKey, challenge: str) -> Any:
        return await self.ask(
            "/api/session",
            browser=key.browser,
            generation=str(key.generation),
            challenge=challenge,
            proof=key.proof(challenge),
        )

    async def session(self, key: BrowserKey) -> str:
        """Open a session. `key` becomes the next key if the bot hands out one."""
        answer = await self.answer(key, await self.challenge())
        if "next" in answer:
            following = _key(answer["next"])
            assert following.browser == key.browser
            key.generation, key.key = following.generation, following.key
            answer = await self.answer(key, await self.challenge())
        return str(answer["session"])


def _key(answer: Any) -> BrowserKey:
    return BrowserKey(answer["browser"], answer["generation"], decoded(answer["key"]))


def protocols(session: str) -> tuple[str, str]:
    """The WebSocket subprotocols with which the page opens its socket."""
    return ("ollim", f"ollim.session.{session}")
