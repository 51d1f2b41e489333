"""What the bot asks of an ntfy server: publish, clear, read back and follow. It blocks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ollim_bot import __version__
from ollim_bot.kernel.base.errors import DeliveryFailed, DeliveryUncertain, Unreachable
from ollim_bot.kernel.base.http_exchange import (
    HttpLimits,
    HttpResponse,
    HttpStream,
    ResponseLost,
    ResponseTooLarge,
    exchange,
)
from ollim_bot.kernel.base.settings import Secret

LIMITS = HttpLimits(step=10.0, whole=30.0, largest=8_000_000)
# The server sends a sign of life every 45 seconds.
BETWEEN = 100.0
# In bytes: a server takes messages of 4,096, may write each of them as six, and adds a title.
LONGEST_LINE = 64 * 1024
MESSAGE = "message"
_DAY_IS_USED_UP = 42908

_OUT_OF_REACH = "{server} cannot be reached now."
_NOT_LET_IN = (
    "{server} does not let ollim-bot in ({status}). Put the right NTFY_TOKEN into `.env`, or run "
    "`ollim-bot push setup` again."
)
_ELSEWHERE = "{server} does not answer as an ntfy server does ({status})."
_TOO_MANY = "{server} takes no more messages for now."
_LOST = "{server} did not say whether it has it."
_REFUSED = "{server} refused it ({status}{reason})."
_TOO_LARGE = "{server} has more messages than can be looked through."


class TooMany(Unreachable):
    """The server asks for a pause: of `wait` seconds if it says so, or until the day is over."""

    def __init__(self, sentence: str, wait: float | None, *, is_of_day: bool) -> None:
        super().__init__(sentence)
        self.wait = wait
        self.is_of_day = is_of_day


class NotLetIn(Unreachable):
    """The server wants another token."""


@dataclass(frozen=True, slots=True)
class ReplyButton:
    """A button that posts `body` to `topic`, with `token` where strangers may not write there."""

    label: str
    topic: str
    body: str
    token: Secret | None = None


@dataclass(frozen=True, slots=True)
class LinkButton:
    """A button that opens an address on the phone."""

    label: str
    address: str


@dataclass(frozen=True, slots=True)
class Push:
    """What is published; one with the same `sequence` replaces an earlier one."""

    topic: str
    sequence: str
    title: str
    text: str
    priority: int = 3
    tags: tuple[str, ...] = ()
    buttons: tuple[ReplyButton | LinkButton, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a topic. `sequence` is empty if none was given, or if the server knows none."""

    id: str
    at: datetime
    kind: str
    sequence: str = ""
    text: str = ""
    title: str = ""
    has_buttons: bool = False


class NtfyClient:
    """Each call raises `Unreachable` if it certainly changed nothing and may work later.

    The token is sent to `server` alone.
    """

    def __init__(
        self, server: str, token: Secret | None = None, *, limits: HttpLimits = LIMITS
    ) -> None:
        self._server = server.rstrip("/")
        self._token = token
        self._limits = limits

    def publish(self, push: Push) -> str:
        """Send it; returns the server's id.

        Raises `DeliveryFailed` if it is refused for good, and `DeliveryUncertain` if it may have
        arrived.
        """
        fields: dict[str, object] = {
            "topic": push.topic,
            "message": push.text,
            "priority": push.priority,
            "sequence_id": push.sequence,
            "title": push.title,
            "tags": push.tags,
            "actions": [self._button(each) for each in push.buttons],
        }
        given = {name: value for name, value in fields.items() if value}
        body = json.dumps(given, ensure_ascii=False).encode("utf-8", "replace")
        answer = self._answer("POST", f"{self._server}/", body)
        if not 200 <= answer.status < 300:
            raise self._refusal(answer)
        found = _object(answer.body).get("id")
        if not isinstance(found, str) or not found:
            raise DeliveryUncertain(self._said(_LOST))
        return found

    def clear(self, topic: str, sequence: str) -> None:
        """Take what has this sequence off the phones; raises as `publish` does."""
        answer = self._answer("PUT", f"{self._server}/{topic}/{sequence}/clear", b"")
        if answer.status == 404:  # a server before 2.16
            raise DeliveryFailed(self._said(_REFUSED, 404))
        if not 200 <= answer.status < 300:
            raise self._refusal(answer)

    def read(self, topic: str, since: str = "all") -> list[Event]:
        """What the server keeps of the topic, oldest first.

        `since` is `all`, a Unix time, or an id, which is then left out. Raises `DeliveryUncertain`
        if there is more than can be read.
        """
        address = f"{self._server}/{topic}/json?poll=1&since={since}"
        try:
            answer = exchange("GET", address, self._headers, limits=self._limits)
        except ResponseTooLarge:
            raise DeliveryUncertain(self._said(_TOO_LARGE)) from None
        except OSError:
            raise Unreachable(self._said(_OUT_OF_REACH)) from None
        if answer.status != 200:
            raise self._unread(answer)
        events = map(event_of, answer.body.split(b"\n"))
        return [each for each in events if each is not None]

    def stream(self) -> HttpStream:
        """A connection for `follow`, which may be closed from any thread."""
        return HttpStream(limits=self._limits, between=BETWEEN, longest=LONGEST_LINE)

    def follow(self, stream: HttpStream, topic: str, since: str) -> Iterator[Event]:
        """The events of the topic as they come, after what the server keeps since then.

        Signs of life are among them. Ends when the stream is closed; else raises `Unreachable`.
        """
        try:
            answer = stream.open(f"{self._server}/{topic}/json?since={since}", self._headers)
            if answer.status != 200:
                raise self._unread(answer)
            for line in stream.lines():
                if (event := event_of(line)) is not None:
                    yield event
        except OSError:
            raise Unreachable(self._said(_OUT_OF_REACH)) from None
        finally:
            stream.close()

    def _answer(self, method: str, address: str, body: bytes) -> HttpResponse:
        try:
            return exchange(method, address, self._headers, body, limits=self._limits)
        except ResponseLost:
            raise DeliveryUncertain(self._said(_LOST)) from None
        except OSError:
            raise Unreachable(self._said(_OUT_OF_REACH)) from None

    def _unread(self, answer: HttpResponse) -> Unreachable:
        """Why nothing could be read, which changes nothing there."""
        refused = self._refusal(answer)
        if isinstance(refused, Unreachable):
            return refused
        return Unreachable(self._said(_ELSEWHERE, answer.status))

    def _refusal(self, answer: HttpResponse) -> Unreachable | DeliveryFailed | DeliveryUncertain:
        status = answer.status
        if status == 429:
            is_of_day = _object(answer.body).get("code") == _DAY_IS_USED_UP
            given = answer.headers.get("retry-after", "")
            wait = float(given) if given.isascii() and given.isdigit() and len(given) < 8 else None
            return TooMany(self._said(_TOO_MANY), wait, is_of_day=is_of_day)
        if status in (401, 403):
            return NotLetIn(self._said(_NOT_LET_IN, status))
        if status >= 500:
            return DeliveryUncertain(self._said(_LOST))
        if status in (400, 413):
            reason = _object(answer.body).get("code", "")
            suffix = f", {reason}" if isinstance(reason, int) else ""
            return DeliveryFailed(self._said(_REFUSED, status, suffix))
        return Unreachable(self._said(_ELSEWHERE, status))

    def _button(self, action: ReplyButton | LinkButton) -> dict[str, object]:
        if isinstance(action, LinkButton):
            return {"action": "view", "label": action.label, "url": action.address}
        button: dict[str, object] = {
            "action": "http",
            "label": action.label,
            "url": f"{self._server}/{action.topic}",
            "method": "POST",
            "body": action.body,
            "clear": True,
        }
        if action.token is not None:
            button["headers"] = {"Authorization": f"Bearer {action.token.reveal()}"}
        return button

    @property
    def _headers(self) -> Mapping[str, str]:
        headers = {"User-Agent": f"ollim-bot/{__version__}", "Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.reveal()}"
        return headers

    def _said(self, sentence: str, status: int = 0, reason: str = "") -> str:
        return sentence.format(server=self._server, status=status, reason=reason)


def event_of(line: bytes) -> Event | None:
    """The event that a line of the server says; None if it says none."""
    said = _object(line)
    given, at = said.get("id"), said.get("time")
    if not isinstance(given, str) or not isinstance(at, int):
        return None
    words = {name: said.get(name) for name in ("event", "sequence_id", "message", "title")}
    kind, sequence, text, title = (each if isinstance(each, str) else "" for each in words.values())
    try:
        moment, has_buttons = datetime.fromtimestamp(at, UTC), bool(said.get("actions"))
        return Event(given, moment, kind, sequence, text, title, has_buttons)
    except (ValueError, OverflowError, OSError):
        return None


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
