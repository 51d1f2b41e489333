"""Pairs the owner's phone from the page: one attempt at a time, in threads, and never half.

An attempt is kept in memory only, so that a restart forgets it, and a reload shows it again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from threading import Event
from urllib.parse import urlsplit

from ollim_bot.features.phone.ntfy_client import NtfyClient, Push
from ollim_bot.features.phone.pairing import (
    OF_IPHONES,
    PUBLIC_SERVER,
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
from ollim_bot.features.phone.push_file import PushFile
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.moments import elapsed
from ollim_bot.kernel.base.settings import PHONE, NtfyAccount, problem_with
from ollim_bot.kernel.store.store import Store, Watches
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.push import (
    Pairing,
    PairingStatus,
    PhoneAttempt,
    PhoneCode,
    PhoneOffer,
    PhoneView,
)
from ollim_bot.kernel.values.runtime_config import PushContent, PushWhat
from ollim_bot.kernel.values.views import ViewAnswer

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
_TEST = "ollim-bot reaches you here. There is nothing to do."
_REMOVED = (
    "No phone is paired any more. {told} Unsubscribe from the topic in the app: hold it, then "
    "delete it. {server} keeps the last messages for 12 hours, unless it is set otherwise."
)
_TOLD, _UNTOLD = "The phone was told.", "The phone could not be told: its server does not answer."
_TOO_LATE = "No press came in time, so nothing was kept. Pair it again when the phone is at hand."
_UNDER_WAY = "A phone is just being paired. Cancel that first."
_PAIRED_ALREADY = "A phone is paired already. Remove it first."
_BROKEN = "The pairing was broken off, and nothing was kept. Try it again."
# How long the page says how the last attempt ended.
_NEWS = timedelta(minutes=10)
# What the address says to see the code of the paired phone.
_CODE = "code"


class _Running:
    """An attempt as the page shows it; its thread ends once it is cancelled."""

    def __init__(self, server: str) -> None:
        self.shown = PhoneAttempt(server)
        self.is_cancelled = Event()


class PhonePage:
    """A `PhoneSettings`. `account` reads the tokens of the settings, each time anew."""

    def __init__(
        self, store: Store, file: PushFile, account: Callable[[], NtfyAccount], clock: Clock
    ) -> None:
        self._store = store
        self._file = file
        self._account = account
        self._clock = clock
        self._running: _Running | None = None
        self._wanted = asyncio.Event()
        self._told, self._has_failed, self._told_at = "", False, clock.now()
        self.news = Watches()

    async def run(self) -> None:
        """Carry out the attempts that are begun on the page, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if (running := self._running) is None:
                continue
            try:
                await self._pair(running)
            finally:
                # The thread that waits for the press ends with it.
                running.is_cancelled.set()
                if self._running is running:
                    self._end(_BROKEN, has_failed=True)

    async def look(self, asked: Mapping[str, str]) -> PhoneView:
        """The phone as it is now; its code only if the words of the address ask for it."""
        config, state = await self._store.read(lambda tx: (tx.config.get(), tx.push.get()))
        now, sent = self._clock.now(), WHAT_IS_SENT[PushContent(config.push_content)]
        told = (_WHAT, _LEAVES.format(sent=sent), TOPIC_IS_A_KEY, OF_IPHONES)
        public = _PUBLIC.format(host=urlsplit(PUBLIC_SERVER).netloc)
        view = PhoneView(
            now,
            PhoneOffer(PUBLIC_SERVER, told, public, _STEPS),
            attempt=self._running.shown if self._running else None,
            told=self._told if elapsed(self._told_at, now) < _NEWS else "",
            has_failed=self._has_failed,
        )
        try:
            pairing = await asyncio.to_thread(self._file.read)
        except OllimError as refused:
            return replace(view, told=str(refused), has_failed=True)
        if pairing is None:
            return view
        # A press of an earlier pairing says nothing of this phone.
        pressed = max(filter(None, (pairing.paired_at, state.last_press)))
        paired, code = PairingStatus(pairing.server, pairing.paired_at, pressed), None
        if asked.get("phone") == _CODE:
            topics = pairing.topic, pairing.reply_topic
            known = PairingAttempt(NtfyAccount(pairing.server), self._clock.now, topics)
            code = await asyncio.to_thread(_code_of, known)
        return replace(view, paired=paired, code=code)

    async def act(self, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        """Do one of `PHONE_ACTIONS`."""
        try:
            match action:
                case "pair":
                    return await self._begin(fields.get("server", ""))
                case "cancel-pairing":
                    if self._running is None:
                        return ViewAnswer("No phone is being paired.", is_error=True)
                    self._running.is_cancelled.set()
                    self._end()
                    return ViewAnswer("Cancelled. Nothing was kept.")
                case "test-phone":
                    await asyncio.to_thread(self._send_test)
                    return ViewAnswer("A test is on its way to your phone.")
                case _:
                    told = await asyncio.to_thread(self._unpair)
        except OllimError as refused:
            return ViewAnswer(str(refused), is_error=True)
        self._end(told)
        return ViewAnswer(told)

    async def _begin(self, typed: str) -> ViewAnswer:
        if self._running is not None:
            return ViewAnswer(_UNDER_WAY, is_error=True)
        if await asyncio.to_thread(self._file.read) is not None:
            return ViewAnswer(_PAIRED_ALREADY, is_error=True)
        server = server_address(typed)
        if problem := problem_with("NTFY_URL", server):
            return ViewAnswer(problem, is_error=True, field="server")
        self._end()
        self._running = _Running(server)
        self._wanted.set()
        self.news.publish()
        return ViewAnswer()

    async def _pair(self, running: _Running) -> None:
        told, is_paired = _TOO_LATE, False
        try:
            account = account_for(running.shown.server, await asyncio.to_thread(self._account))
            attempt = PairingAttempt(account, self._clock.now)
            await asyncio.to_thread(attempt.check_server)
            await asyncio.to_thread(attempt.send_test)
            code = await asyncio.to_thread(_code_of, attempt)
            running.shown = replace(running.shown, code=code, until=attempt.ends_at)
            self.news.publish()
            pairing = await asyncio.to_thread(attempt.wait_for_press, running.is_cancelled)
            if pairing is not None:
                is_second = await self._store.transact(_ring_less_beside_others)
                last = attempt.last_reply
                await asyncio.to_thread(keep, pairing, last, self._file, self._store)
                told, is_paired = f"{_PAIRED} {_MUST}" if is_second else _PAIRED, True
        except (TokenNeeded, ReplyTokenNeeded) as refused:
            told = _NO_TOKEN.format(refused=refused)
        except OllimError as refused:
            told = str(refused)
        # The page shows how a cancelled one ended only if its press came first.
        if is_paired or self._running is running:
            self._end(told, has_failed=not is_paired)

    def _paired(self) -> Pairing:
        if (pairing := self._file.read()) is None:
            raise OllimError("No phone is paired.")
        return pairing

    def _send_test(self) -> None:
        pairing = self._paired()
        token = account_for(pairing.server, self._account()).token
        push = Push(pairing.topic, secrets.token_hex(8), "A test", _TEST)
        NtfyClient(pairing.server, token).publish(push)

    def _unpair(self) -> str:
        pairing = self._paired()
        is_told = unpair(pairing, self._account(), self._file, self._store)
        return _REMOVED.format(told=_TOLD if is_told else _UNTOLD, server=pairing.server)

    def _end(self, told: str = "", *, has_failed: bool = False) -> None:
        self._running = None
        self._told, self._has_failed, self._told_at = told, has_failed, self._clock.now()
        self.news.publish()


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
