"""Delivers a message to the owner by Discord's REST interface alone, without a gateway.

For a program without an event loop: it sends what the bot would send, with the same nonce.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ollim_bot import __version__
from ollim_bot.domain.cards import Button, ButtonStyle, Card, Color
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.errors import DeliveryFailed, DeliveryUncertain, OllimError, Unreachable
from ollim_bot.http_exchange import HttpLimits, ResponseLost, exchange
from ollim_bot.settings import Secret
from ollim_bot.surfaces.discord.rendering import (
    NAME,
    OutgoingMessage,
    ReceivedMessage,
    dated,
    found_among,
    outgoing_of,
    parts_of,
)
from ollim_bot.upkeep.checks.network import USUAL_ADDRESS
from ollim_bot.upkeep.direct_channels import LookUp, SentinelClock

COLORS: Mapping[Color, int] = {
    Color.BLUE: 0x3498DB,
    Color.GREEN: 0x2ECC71,
    Color.RED: 0xE74C3C,
    Color.YELLOW: 0xFEE75C,
    Color.PURPLE: 0x9B59B6,
}
_STYLES: Mapping[ButtonStyle, int] = {
    ButtonStyle.PRIMARY: 1,
    ButtonStyle.SECONDARY: 2,
    ButtonStyle.SUCCESS: 3,
    ButtonStyle.DANGER: 4,
}
_ROW, _BUTTON, _IN_A_ROW = 1, 2, 5
_SUPPRESS_EMBEDS = 1 << 2
_LIMITS = HttpLimits(step=10.0, whole=30.0, largest=4_000_000)
_PAGE, _MOST_PAGES = 100, 5

_OUT_OF_REACH = "Discord cannot be reached now."
_LOST = "Discord did not say whether it has it."
_HIDDEN = "Discord does not show the messages, so it is unknown whether it has it."
_NO_OWNER = "The Discord application belongs to a team, and `DISCORD_OWNER_ID` is not set."
_NO_CHANNEL = "Discord does not open the direct messages with the owner."
_REFUSED = "Discord refused it ({status})."


class _Answer(NamedTuple):
    """`wait` is how many seconds Discord asks to wait."""

    status: int
    said: Any
    wait: float | None = None

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300


class DiscordRest:
    """A `DirectChannel`. `dm` is the owner's channel; empty if it is not known yet.

    Rate limits are waited for, a minute at most.
    """

    name = NAME

    def __init__(
        self,
        token: Secret,
        owner_id: int | None,
        address: str | None,
        dm: str,
        clock: SentinelClock,
    ) -> None:
        self._token = token
        self._owner_id = owner_id
        self._base = (address or USUAL_ADDRESS).rstrip("/")
        self._dm = dm
        self._clock = clock
        self._may_wait = 60.0

    def deliver(self, message: ChatMessage, nonce: str, look: LookUp) -> str:
        outgoing = outgoing_of(parts_of(message)[0])
        found = self._found(outgoing, nonce, look)
        if found is not None:
            return found
        body = payload_of(dated(outgoing, message.at, self._clock.now()), nonce)
        for _ in range(3):
            try:
                answer = self._ask("POST", f"/channels/{self._dm}/messages", body)
            except DeliveryUncertain:
                try:
                    found = self._found(outgoing, nonce, look._replace(is_in_doubt=True))
                except Unreachable:
                    raise DeliveryUncertain(_LOST) from None
                if found is not None:
                    return found
                # The nonce keeps a repeated try from becoming a second message.
                continue
            if answer.is_good:
                return str(answer.said["id"])
            raise _refusal(answer)
        raise DeliveryUncertain(_LOST)

    def _found(self, outgoing: OutgoingMessage, nonce: str, look: LookUp) -> str | None:
        """The id of the message, if it is there already."""
        try:
            seen = [each for each in self._seen(look.since) if each.is_ours]
        except DeliveryFailed:
            if look.is_in_doubt:
                raise DeliveryUncertain(_HIDDEN) from None
            return None
        return found_among(seen, outgoing, nonce, look.others)

    def _seen(self, since: datetime) -> Sequence[ReceivedMessage]:
        """The messages since then, newest first."""
        found: list[ReceivedMessage] = []
        for _ in range(_MOST_PAGES):
            before = f"&before={found[-1].ref}" if found else ""
            page = [*self._page(before)]
            found += page
            if len(page) < _PAGE or page[-1].at < since:
                break
        return [each for each in found if each.at >= since]

    def _page(self, before: str) -> Iterator[ReceivedMessage]:
        path = "/channels/{}/messages" + f"?limit={_PAGE}{before}"
        if not self._dm:
            self._dm = self._opened()
        answer = self._ask("GET", path.format(self._dm))
        if answer.status in (403, 404):
            # The channel may be that of another account, from before the token was changed.
            self._dm = self._opened()
            answer = self._ask("GET", path.format(self._dm))
        if not answer.is_good or not isinstance(answer.said, list):
            raise _refusal(answer)
        return map(_received, answer.said)

    def _opened(self) -> str:
        """Open the direct messages with the owner, and return their id."""
        body = {"recipient_id": str(self._owner_id or self._owner())}
        try:
            answer = self._ask("POST", "/users/@me/channels", body)
        except DeliveryUncertain:
            raise Unreachable(_OUT_OF_REACH) from None
        if not answer.is_good:
            raise Unreachable(_NO_CHANNEL if answer.status in (400, 403) else _OUT_OF_REACH)
        return str(answer.said["id"])

    def _owner(self) -> str:
        answer = self._ask("GET", "/oauth2/applications/@me")
        if not answer.is_good:
            raise _refusal(answer)
        owner = answer.said.get("owner")
        if answer.said.get("team") is not None or not isinstance(owner, dict):
            raise Unreachable(_NO_OWNER)
        return str(owner["id"])

    def _ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> _Answer:
        """The answer, after the waits that Discord asks for."""
        while True:
            answer = self._answer(method, path, body)
            if answer.status == 401:
                raise Unreachable("Discord refused the token.")
            if answer.status != 429:
                return answer
            if answer.wait is None or answer.wait > self._may_wait:
                raise Unreachable("Discord asks to wait.")
            self._may_wait -= answer.wait
            self._clock.sleep(answer.wait)

    def _answer(self, method: str, path: str, body: Mapping[str, object] | None) -> _Answer:
        data = None if body is None else json.dumps(body).encode()
        headers = {
            "Authorization": f"Bot {self._token.reveal()}",
            "User-Agent": f"DiscordBot (ollim-bot, {__version__})",
            "Content-Type": "application/json",
        }
        try:
            answer = exchange(method, f"{self._base}{path}", headers, data, limits=_LIMITS)
        except ResponseLost:
            if body is None:
                raise Unreachable(_OUT_OF_REACH) from None
            raise DeliveryUncertain(_LOST) from None
        except OSError:
            raise Unreachable(_OUT_OF_REACH) from None
        if answer.status >= 500 and body is not None:
            raise DeliveryUncertain(_LOST)
        try:
            said = json.loads(answer.body)
        except ValueError:
            said = None
        return _Answer(answer.status, said, _wait(said, answer.headers.get("retry-after")))


def payload_of(outgoing: OutgoingMessage, nonce: str) -> dict[str, object]:
    """The request that sends a message, as discord.py writes it."""
    body: dict[str, object] = {
        "nonce": nonce,
        "enforce_nonce": True,
        "allowed_mentions": {"parse": []},
    }
    if outgoing.text:
        body["content"] = outgoing.text
    if not outgoing.has_previews:
        body["flags"] = _SUPPRESS_EMBEDS
    if outgoing.card is not None:
        body["embeds"] = [embed_of(outgoing.card, outgoing.card_footer)]
        if outgoing.card.buttons:
            body["components"] = components_of(outgoing.card.buttons)
    return body


def embed_of(card: Card, footer: str) -> dict[str, object]:
    embed: dict[str, object] = {"type": "rich", "title": card.title, "color": COLORS[card.color]}
    if card.description:
        embed["description"] = card.description
    if footer:
        embed["footer"] = {"text": footer}
    return embed


def components_of(buttons: Sequence[Button]) -> list[dict[str, object]]:
    """The buttons, five in a row; a card that stands for a due item has no lines and no fields."""
    rows = range(0, len(buttons), _IN_A_ROW)
    return [
        {"type": _ROW, "components": [_component(each) for each in buttons[at : at + _IN_A_ROW]]}
        for at in rows
    ]


def _component(button: Button) -> dict[str, object]:
    return {
        "type": _BUTTON,
        "style": _STYLES[button.style],
        "label": button.label,
        "custom_id": button.custom_id,
        "disabled": button.is_used,
    }


def _received(said: Mapping[str, Any]) -> ReceivedMessage:
    embeds = said.get("embeds") or [{}]
    words = [embeds[0].get("title"), embeds[0].get("description")]
    text = said.get("content") or "\n".join(word for word in words if word)
    return ReceivedMessage(
        ref=str(said["id"]),
        at=datetime.fromisoformat(said["timestamp"]).astimezone(UTC),
        is_owners=False,
        is_ours=bool(said.get("author", {}).get("bot")),
        text=text,
        nonce=str(said.get("nonce") or ""),
    )


def _refusal(answer: _Answer) -> OllimError:
    if answer.status >= 500:
        return Unreachable(_OUT_OF_REACH)
    return DeliveryFailed(_REFUSED.format(status=answer.status))


def _wait(said: Any, header: str | None) -> float | None:
    """How long Discord asks to wait; None if it does not say."""
    after = said.get("retry_after") if isinstance(said, dict) else None
    try:
        return float(str(header if after is None else after))
    except ValueError:
        return None
