"""Pairs the owner's phone: checks the server, and proves the phone by a pressed button.

All of it blocks. Nothing is kept before `keep`.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from threading import Event
from time import monotonic
from urllib.parse import urlsplit

from ollim_bot.features.phone.ntfy_client import NotLetIn, NtfyClient, Push, ReplyButton
from ollim_bot.features.phone.push_file import PushFile
from ollim_bot.kernel.base.errors import (
    DeliveryFailed,
    DeliveryUncertain,
    OllimError,
    StorageError,
    Unreachable,
)
from ollim_bot.kernel.base.http_exchange import Ask, HttpAnswer, ask
from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.base.settings import PHONE, NtfyAccount, Secret
from ollim_bot.kernel.changes.file_changes import Rows
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.upkeep.findings import (
    Check,
    DoctorInput,
    Found,
    failed,
    off,
    open_to_others,
    passed,
    warned,
)
from ollim_bot.kernel.values.push import Pairing
from ollim_bot.kernel.values.runtime_config import PushContent
from ollim_bot.kernel.values.surface_state import PushState

PUBLIC_SERVER = "https://ntfy.sh"
TIME_FOR_PRESS = timedelta(minutes=10)
# In seconds between two looks for the press: the public server takes one request in five.
_SHORT_PAUSE, _LONG_PAUSE, _SLOWER = 0.3, 5.0, 1.2
_QUIET, _HIGH = 1, 4

# What a person reads before a phone is paired.
WHAT_IS_SENT = {
    PushContent.FULL: "the words of each message that rings",
    PushContent.TITLE: "the title of each message that rings",
    PushContent.NONE: "only that there is a message",
}
TOPIC_IS_A_KEY = (
    "The name of the topic is a key. Who knows it can read what rings and answer it too, also that "
    "you took a dose."
)
OF_IPHONES = (
    "An Android phone takes a message away when you answer it elsewhere. On an iPhone it stays "
    "until you swipe it."
)

_TITLE = "Is this your phone?"
_CHECK = "Checking the server. There is nothing to do for you."
_TEXT = "Press the button, and ollim-bot knows that it reaches you here."
_GOODBYE = "ollim-bot sends nothing more to this topic. Unsubscribe from it in the app."

_KEEPS_NOTHING = (
    "{server} keeps no messages, so a reminder whose answer got lost could come twice or never. "
    "Switch its cache on (`cache-file` or `cache-duration` in its server.yml), or take another "
    "server."
)
_TOO_OLD = (
    "{server} is too old: it cannot replace a message that it has sent. It needs ntfy 2.16 or "
    "newer."
)
_NEEDS_TOKEN = "{server} does not let ollim-bot write and read its topics{with_token}."
_NEEDS_REPLY_TOKEN = (
    "{server} does not let the buttons of your phone write to the topic of the answers"
    "{with_token}. Open it for anonymous writing (`ntfy access everyone 'ollim-reply-*' "
    "write-only`), or make a token that may only write there."
)
_SAME_TOKEN = (
    "NTFY_REPLY_TOKEN is the same as NTFY_TOKEN. It stands in every button, so it has to be a "
    "token that may only write to the topic of the answers."
)
_READS_TOO = (
    "NTFY_REPLY_TOKEN may also read topics. It stands in every button: give its user the right to "
    "write only."
)


class ServerRefused(OllimError):
    """The server cannot be used, for the reason in the sentence."""


class TokenNeeded(ServerRefused):
    """Another token of the bot may mend it."""


class ReplyTokenNeeded(ServerRefused):
    """Another token for the buttons may mend it."""


def new_topics() -> tuple[str, str]:
    """A name for messages and one for answers, each with 128 random bits, and easy to type.

    They begin differently, so that the rules of a server can tell them apart.
    """
    first, second = (base64.b32encode(secrets.token_bytes(16)).decode() for _ in range(2))
    return f"ollim-{first.rstrip('=').lower()}", f"ollim-reply-{second.rstrip('=').lower()}"


def server_address(typed: str) -> str:
    """The address that a person means, with https if they name no other way."""
    text = typed.strip().rstrip("/")
    return f"https://{text}" if text and "://" not in text else text


def account_for(server: str, account: NtfyAccount) -> NtfyAccount:
    """The server with the tokens of the account, if they are for that server; else without."""
    return account if account.url == server else NtfyAccount(server)


class PairingAttempt:
    """One attempt to pair a phone: `check_server`, `send_test`, `wait_for_press`, then `keep`.

    Without `topics` the phone gets new ones, each with 128 random bits. `now` is the time in the
    owner's zone. The press counts until `ends_at`, which is None before the test is sent;
    `last_reply` is the server's id of it, and empty before it has come.
    """

    def __init__(
        self,
        account: NtfyAccount,
        now: Callable[[], datetime],
        topics: tuple[str, str] | None = None,
    ) -> None:
        if account.url is None:
            raise ValueError("a pairing needs the address of a server")
        self.server = account.url
        self.topic, self.reply_topic = topics or new_topics()
        self.ends_at: datetime | None = None
        self.last_reply = ""
        self._account = account
        self._client = NtfyClient(self.server, account.token)
        self._now = now
        self._nonce = secrets.token_hex(16)
        self._sequence = secrets.token_hex(8)

    @property
    def subscribe_address(self) -> str:
        """What the QR code says: the app follows the topic when it is opened."""
        parts = urlsplit(self.server)
        plain = "" if parts.scheme == "https" else "?secure=false"
        return f"ntfy://{parts.netloc}{parts.path}/{self.topic}{plain}"

    def code(self) -> list[list[bool]]:
        """The rows of the QR code with its quiet border; True is dark."""
        import segno  # it takes longer to load than a command takes otherwise

        code = segno.make_qr(self.subscribe_address, error="m", boost_error=False)
        return [[bool(is_dark) for is_dark in row] for row in code.matrix_iter(border=3)]

    def check_server(self) -> tuple[str, ...]:
        """Publish, replace and read back a message, and write an answer as a button does.

        Returns warnings. Raises `ServerRefused` with the reason.
        """
        token, reply_token = self._account.token, self._account.reply_token

        def needs(sentence: str, token: Secret | None) -> str:
            with_token = " with this token" if token is not None else ""
            return sentence.format(server=self.server, with_token=with_token)

        if token is not None and token == reply_token:
            raise ReplyTokenNeeded(_SAME_TOKEN)
        needs_token = TokenNeeded(needs(_NEEDS_TOKEN, token))
        with _refusing(needs_token):
            self._check_topic()
        buttons = NtfyClient(self.server, reply_token)
        with _refusing(ReplyTokenNeeded(needs(_NEEDS_REPLY_TOKEN, reply_token))):
            answer = buttons.publish(Push(self.reply_topic, secrets.token_hex(8), "", "check"))
        with _refusing(needs_token):
            kept = self._client.read(self.reply_topic)
        if answer not in [each.id for each in kept]:
            raise ServerRefused(_KEEPS_NOTHING.format(server=self.server))
        if reply_token is not None:
            with suppress(OllimError):
                buttons.read(self.reply_topic)
                return (_READS_TOO,)
        return ()

    def send_test(self) -> None:
        """Send a push with one button; the press counts for ten minutes.

        Raises as `NtfyClient.publish`; one that may have arrived counts as sent.
        """
        token = self._account.reply_token
        button = ReplyButton("It reaches me", self.reply_topic, self._nonce, token)
        push = Push(self.topic, self._sequence, _TITLE, _TEXT, _HIGH, buttons=(button,))
        with suppress(DeliveryUncertain):
            self._client.publish(push)
        self.ends_at = self._now() + TIME_FOR_PRESS

    def wait_for_press(
        self, cancelled: Event, on_wait: Callable[[timedelta], None] = lambda _: None
    ) -> Pairing | None:
        """The pairing once the button is pressed; None if that did not come in time.

        All else in the topic is ignored. `on_wait` is told several times a second how long the
        press still counts.
        """
        look_at, pause = monotonic(), _SHORT_PAUSE
        while self.ends_at is not None and not cancelled.is_set():
            left = self.ends_at - self._now()
            is_last = left <= timedelta()
            if not is_last:
                on_wait(left)
            if is_last or monotonic() >= look_at:
                if self._has_come():
                    # Take the test off other phones, too.
                    with suppress(OllimError):
                        self._client.clear(self.topic, self._sequence)
                    return Pairing(self.server, self.topic, self.reply_topic, self._now())
                look_at, pause = monotonic() + pause, min(_LONG_PAUSE, pause * _SLOWER)
            if is_last:
                return None
            cancelled.wait(min(0.25, left.total_seconds()))
        return None

    def _has_come(self) -> bool:
        """Whether the topic of the answers has the press; one that cannot be read has not yet."""
        with suppress(OllimError):
            for event in self._client.read(self.reply_topic):
                if hmac.compare_digest(event.text.encode(), self._nonce.encode()):
                    self.last_reply = event.id
                    return True
        return False

    def _check_topic(self) -> None:
        sequence = secrets.token_hex(8)
        push = Push(self.topic, sequence, "", _CHECK, _QUIET)
        self._client.publish(push)
        replacing = self._client.publish(push)
        event = next((each for each in self._client.read(self.topic) if each.id == replacing), None)
        if event is None:
            raise ServerRefused(_KEEPS_NOTHING.format(server=self.server))
        if event.sequence != sequence:
            raise ServerRefused(_TOO_OLD.format(server=self.server))
        self._client.clear(self.topic, sequence)


@contextmanager
def _refusing(not_let_in: ServerRefused) -> Iterator[None]:
    try:
        yield
    except NotLetIn:
        raise not_let_in from None
    except (Unreachable, DeliveryFailed, DeliveryUncertain) as failed:
        raise ServerRefused(str(failed)) from None


def keep(pairing: Pairing, last_reply: str, file: PushFile, rows: Rows) -> None:
    """Keep the pairing; a running bot learns of it at once. Raises `StorageError`.

    What came to the topic of the answers up to `last_reply` is no answer to the bot.
    """
    file.write(pairing)

    def step(tx: Transaction) -> None:
        known = tx.push.get()
        if known.identity != pairing.identity:
            tx.push_buttons.withdraw_all()
        of_pairing = known.of_pairing(pairing.identity)
        read_up_to = of_pairing.last_reply or last_reply
        tx.push.put(of_pairing.having_read(read_up_to, pressed=pairing.paired_at))
        tx.channels.join(PHONE, pairing.identity)

    rows.run(step)


def unpair(pairing: Pairing, account: NtfyAccount, file: PushFile, rows: Rows) -> bool:
    """Tell the phone, then forget the pairing; returns whether the phone could be told.

    Raises `StorageError` if the pairing cannot be forgotten.
    """
    is_told = say_goodbye(pairing, account)
    file.remove()

    def step(tx: Transaction) -> None:
        tx.push_buttons.withdraw_all()
        tx.push.change(lambda known: known.of_pairing(""))
        tx.channels.leave(PHONE)

    rows.run(step)
    return is_told


def say_goodbye(pairing: Pairing, account: NtfyAccount) -> bool:
    """Send a last message to a topic that is no longer used; returns whether it arrived."""
    token = account_for(pairing.server, account).token
    push = Push(pairing.topic, secrets.token_hex(8), "No longer used", _GOODBYE, _QUIET)
    try:
        NtfyClient(pairing.server, token).publish(push)
    except OllimError:
        return False
    return True


_NO_PRESS_FOR = timedelta(days=7)
_PHONE_TRIES = "Look at the network; the bot tries again by itself. `ollim-bot push test` tells."
_PAIR_SERVER = "Run `ollim-bot push setup` with the server that you want."


def check_phone(given: DoctorInput) -> Found:
    paths = given.data.paths
    yield from open_to_others(paths.push)
    try:
        pairing = PushFile(paths).read()
    except StorageError as unreadable:
        step = "Run `ollim-bot push setup --new`."
        yield failed(f"state/{paths.push.name} {unreadable.reason}", step)
        return
    if pairing is None:
        yield off("not paired; `ollim-bot push setup` does it")
        return
    state = given.read(lambda tx: tx.push.get()) or PushState()
    yield from phone(pairing, state, given.valid_settings.ntfy.url, given.local_now, ask)


def phone(
    pairing: Pairing, state: PushState, address: str | None, now: datetime, ask: Ask
) -> Found:
    """`address` is what `NTFY_URL` says."""
    host = urlsplit(pairing.server).netloc
    if address is not None and address != pairing.server:
        other = f"but NTFY_URL names {urlsplit(address).netloc}; no token is sent"
        yield warned(f"your phone is paired with {host}, {other}")
    try:
        answer = ask(f"{pairing.server}/v1/health", {})
    except OSError:
        answer = HttpAnswer(503, None)
    if answer.status >= 500 or answer.status == 429:
        yield warned(f"{host} cannot be reached now, so nothing comes to your phone", _PHONE_TRIES)
        return
    if not isinstance(answer.said, dict) or "healthy" not in answer.said:
        yield failed(f"what answers at {host} is no server for your phone")
        return
    pressed = max(filter(None, (pairing.paired_at, state.last_press)))
    since = describe(pressed, now)
    if now - pressed > _NO_PRESS_FOR:
        silent = f"no button was pressed on your phone since {since}"
        gone = f"{silent}: {host} takes the messages, but the phone may be gone"
        yield warned(gone, "Run `ollim-bot push test` and press its button.")
    else:
        yield passed(f"paired with {host}; a button was last pressed {since}")


CHECKS = (Check("phone", check_phone, _PAIR_SERVER, is_owners=True, place=250),)
