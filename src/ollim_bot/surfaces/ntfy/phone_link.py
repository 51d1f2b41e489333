"""The steps of pairing as the page takes them: servers without accounts, and one phone's keys."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime
from threading import Event
from urllib.parse import urlsplit

from ollim_bot.domain.phone import PairingStatus, PhoneCode, PhoneOffer
from ollim_bot.domain.push import Pairing
from ollim_bot.domain.runtime_config import PushContent, PushWhat
from ollim_bot.errors import OllimError, WrongInput
from ollim_bot.settings import PHONE, NtfyAccount, problem_with
from ollim_bot.store.changes import Rows
from ollim_bot.store.push_file import PushFile
from ollim_bot.store.transaction import Transaction
from ollim_bot.surfaces.ntfy.client import NtfyClient, Push
from ollim_bot.surfaces.ntfy.pairing import (
    OF_IPHONES,
    PUBLIC_SERVER,
    TIME_FOR_PRESS,
    TOPIC_IS_A_KEY,
    WHAT_IS_SENT,
    PairingAttempt,
    ReplyTokenNeeded,
    TokenNeeded,
    account_for,
    keep,
    server_address,
    unpair,
)

_WHAT = (
    "What waits for you can ring on your phone, with its buttons, through the app ntfy and a "
    "server between the bot and the app. Nothing of this machine can be reached from outside."
)
_LEAVES = (
    "What leaves this machine: {sent}. Who runs the server can read it; `push_content` below says "
    "how much it is."
)
_PUBLIC = (
    "Without a server of your own there is the public one, {host}, which needs no account: the "
    "people who run it can read what rings, and keep it for 12 hours. On the way it passes Google, "
    "or Apple with an iPhone."
)
_SCAN = (
    "Android: scan the code with the camera, which opens the app. iPhone, or without a camera: "
    "press + in the app and type the server and the topic."
)
_STEPS = (
    "Install the app ntfy: from Google Play, F-Droid or the App Store.",
    _SCAN,
    "The topic shows a message. Press its button, “It reaches me”.",
)
_PAIRED = "Your phone is paired. It counts at once."
_MUST = (
    "Discord reaches you too, so only what must come rings on the phone. `push_what` below changes "
    "that."
)
_NO_TOKEN = "{refused} The page takes no token: run `ollim-bot push setup` in a terminal."
_TEST_TITLE, _TEST = "A test", "ollim-bot reaches you here. There is nothing to do."
_REMOVED = (
    "No phone is paired any more. {told} Unsubscribe from the topic in the app: hold it, then "
    "delete it. {server} keeps the last messages for 12 hours, unless it is set otherwise."
)
_TOLD, _UNTOLD = "The phone was told.", "The phone could not be told: its server does not answer."


class NtfyPhone:
    """A `PhoneLink`. `account` reads the tokens of the settings; `now` is in the owner's zone."""

    def __init__(
        self,
        file: PushFile,
        rows: Rows,
        account: Callable[[], NtfyAccount],
        now: Callable[[], datetime],
    ) -> None:
        self._file = file
        self._rows = rows
        self._account = account
        self._now = now
        self._attempts: dict[str, PairingAttempt] = {}

    def offer(self) -> PhoneOffer:
        content = PushContent(self._rows.query(lambda tx: tx.config.get()).push_content)
        return PhoneOffer(
            PUBLIC_SERVER,
            (_WHAT, _LEAVES.format(sent=WHAT_IS_SENT[content]), TOPIC_IS_A_KEY, OF_IPHONES),
            _PUBLIC.format(host=urlsplit(PUBLIC_SERVER).netloc),
            _STEPS,
            TIME_FOR_PRESS,
        )

    def server_address(self, typed: str) -> str:
        address = server_address(typed)
        if problem := problem_with("NTFY_URL", address):
            raise WrongInput(problem)
        return address

    def begin(self, server: str) -> PhoneCode:
        attempt = PairingAttempt(account_for(server, self._account()), self._now)
        try:
            attempt.check_server()
        except (TokenNeeded, ReplyTokenNeeded) as refused:
            raise OllimError(_NO_TOKEN.format(refused=refused)) from None
        attempt.send_test()
        code = _code_of(attempt)
        self._attempts = {code.topic: attempt}
        return code

    def wait(self, code: PhoneCode, is_cancelled: Event) -> str | None:
        attempt = self._attempts[code.topic]
        pairing = attempt.wait_for_press(is_cancelled.is_set)
        if pairing is None:
            return None
        is_second = self._rows.run(_ring_less_beside_others)
        keep(pairing, attempt.last_reply, self._file, self._rows)
        return f"{_PAIRED} {_MUST}" if is_second else _PAIRED

    def paired(self) -> PairingStatus | None:
        pairing = self._file.read()
        if pairing is None:
            return None
        pressed = self._rows.query(lambda tx: tx.push.get()).last_press
        # A press of an earlier pairing says nothing of this phone.
        last = max(filter(None, (pairing.paired_at, pressed)))
        return PairingStatus(pairing.server, pairing.paired_at, last)

    def code(self) -> PhoneCode | None:
        pairing = self._file.read()
        if pairing is None:
            return None
        topics = pairing.topic, pairing.reply_topic
        return _code_of(PairingAttempt(NtfyAccount(pairing.server), self._now, topics))

    def send_test(self) -> str:
        pairing = self._known()
        token = account_for(pairing.server, self._account()).token
        push = Push(pairing.topic, secrets.token_hex(8), _TEST_TITLE, _TEST)
        NtfyClient(pairing.server, token).publish(push)
        return "A test is on its way to your phone."

    def remove(self) -> str:
        pairing = self._known()
        is_told = unpair(pairing, self._account(), self._file, self._rows)
        return _REMOVED.format(told=_TOLD if is_told else _UNTOLD, server=pairing.server)

    def _known(self) -> Pairing:
        pairing = self._file.read()
        if pairing is None:
            raise OllimError("No phone is paired.")
        return pairing


def _code_of(attempt: PairingAttempt) -> PhoneCode:
    rows = tuple("".join("#" if dark else " " for dark in row) for row in attempt.code())
    return PhoneCode(attempt.topic, attempt.reply_topic, rows)


def _ring_less_beside_others(tx: Transaction) -> bool:
    """Beside another channel, only what must come rings, unless the owner chose; whether so now."""
    config = tx.config.get()
    others = [each for each in tx.channels.all() if each.name != PHONE]
    if not others or config.push_what != config.defaults.value("push_what"):
        return False
    tx.config.put(config.with_value("push_what", PushWhat.MUST))
    return True
