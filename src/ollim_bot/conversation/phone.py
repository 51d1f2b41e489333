"""Pairs the owner's phone from the page: one attempt at a time, in threads, and never half.

An attempt is kept in memory only, so that a restart forgets it, and a reload shows it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from threading import Event

from ollim_bot.domain.moments import elapsed
from ollim_bot.domain.phone import PhoneAttempt, PhoneView
from ollim_bot.domain.views import ViewAnswer
from ollim_bot.errors import OllimError, WrongInput
from ollim_bot.ports import Clock
from ollim_bot.store.store import Watches
from ollim_bot.view_ports import PhoneLink

ACTIONS = frozenset({"pair", "cancel-pairing", "test-phone", "remove-phone"})

_TOO_LATE = "No press came in time, so nothing was kept. Pair it again when the phone is at hand."
_UNDER_WAY = "A phone is just being paired. Cancel that first."
_PAIRED_ALREADY = "A phone is paired already. Remove it first."
_BROKEN = "The pairing was broken off, and nothing was kept. Try it again."
# How long the page says how the last attempt ended.
_NEWS = timedelta(minutes=10)
# What the address says to see the code of the paired phone.
_CODE = "code"


class _Attempt:
    def __init__(self, server: str) -> None:
        self.shown = PhoneAttempt(server)
        self.is_cancelled = Event()


class PhonePage:
    """What the page shows of the phone, and does with it. `news` are published at each step."""

    def __init__(self, link: PhoneLink, clock: Clock) -> None:
        self._link = link
        self._clock = clock
        self._attempt: _Attempt | None = None
        self._wanted = asyncio.Event()
        self._told, self._has_failed, self._told_at = "", False, clock.now()
        self.news = Watches()

    async def run(self) -> None:
        """Carry out the attempts that are begun on the page, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if (attempt := self._attempt) is None:
                continue
            try:
                await self._pair(attempt)
            finally:
                # The thread that waits for the press ends with it.
                attempt.is_cancelled.set()
                if self._attempt is attempt:
                    self._end(_BROKEN, has_failed=True)

    async def look(self, asked: Mapping[str, str]) -> PhoneView:
        return await asyncio.to_thread(self._look, wants_code=asked.get("phone") == _CODE)

    def _look(self, *, wants_code: bool) -> PhoneView:
        link, attempt, now = self._link, self._attempt, self._clock.now()
        is_news = elapsed(self._told_at, now) < _NEWS
        view = PhoneView(
            now,
            link.offer(),
            attempt=attempt.shown if attempt else None,
            told=self._told if is_news else "",
            has_failed=self._has_failed,
        )
        try:
            paired = link.paired()
            code = link.code() if paired and wants_code else None
        except OllimError as refused:
            return replace(view, told=str(refused), has_failed=True)
        return replace(view, paired=paired, code=code)

    async def act(self, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        """Do one of `ACTIONS`."""
        try:
            match action:
                case "pair":
                    return await self._begin(fields.get("server", ""))
                case "cancel-pairing":
                    if self._attempt is None:
                        return ViewAnswer("No phone is being paired.", is_error=True)
                    self._attempt.is_cancelled.set()
                    self._end()
                    return ViewAnswer("Cancelled. Nothing was kept.")
                case "test-phone":
                    return ViewAnswer(await asyncio.to_thread(self._link.send_test))
                case _:
                    told = await asyncio.to_thread(self._link.remove)
        except OllimError as refused:
            return ViewAnswer(str(refused), is_error=True)
        self._end(told)
        return ViewAnswer(told)

    async def _begin(self, typed: str) -> ViewAnswer:
        if self._attempt is not None:
            return ViewAnswer(_UNDER_WAY, is_error=True)
        if await asyncio.to_thread(self._link.paired):
            return ViewAnswer(_PAIRED_ALREADY, is_error=True)
        try:
            server = self._link.server_address(typed)
        except WrongInput as wrong:
            return ViewAnswer(str(wrong), is_error=True, field="server")
        self._end()
        self._attempt = _Attempt(server)
        self._wanted.set()
        self.news.publish()
        return ViewAnswer()

    async def _pair(self, attempt: _Attempt) -> None:
        try:
            code = await asyncio.to_thread(self._link.begin, attempt.shown.server)
            patience = (await asyncio.to_thread(self._link.offer)).patience
            until = self._clock.now() + patience
            attempt.shown = replace(attempt.shown, code=code, until=until)
            self.news.publish()
            paired = await asyncio.to_thread(self._link.wait, code, attempt.is_cancelled)
        except OllimError as refused:
            paired, told = None, str(refused)
        else:
            told = paired or _TOO_LATE
        # The page shows how a cancelled one ended only if its press came first.
        if paired or self._attempt is attempt:
            self._end(told, has_failed=not paired)

    def _end(self, told: str = "", *, has_failed: bool = False) -> None:
        self._attempt = None
        self._told, self._has_failed, self._told_at = told, has_failed, self._clock.now()
        self.news.publish()
