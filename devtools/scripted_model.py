"""A model that replies from a script."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Self

from ollim_bot.offline.rules import asks_for_summary, side_answer, summary
from ollim_bot.offline.server import Failure, ModelRequest, Reply, Say

Answer = Reply | Failure
Predicate = Callable[[ModelRequest], bool]


class ScriptedModel:
    """Rules come first, newest first; then the queue; then the default answer.

    Requests that the engine makes for itself (a title, a quota probe) get a neutral answer, are
    listed apart and use nothing of the script. A compaction is part of the conversation, but where
    no rule fits it gets a short summary and leaves the queue alone.
    """

    def __init__(self, default: str = "ok") -> None:
        self.requests: list[ModelRequest] = []
        self.side_requests: list[ModelRequest] = []
        self._default = Reply((Say(default),))
        self._queue: deque[Answer] = deque()
        self._rules: deque[tuple[Predicate, Answer]] = deque()
        self._arrivals: list[tuple[int, asyncio.Event]] = []

    def answers(self, *texts: str) -> Self:
        """The next requests get these texts, one each."""
        return self.then(*(Reply((Say(text),)) for text in texts))

    def then(self, *answers: Answer) -> Self:
        """The next requests get these answers, one each."""
        self._queue.extend(answers)
        return self

    def when(self, condition: str | Predicate, answer: Answer) -> Self:
        """Every request that fits gets this answer; a text fits if its last message contains it."""
        self._rules.appendleft((_contains(condition), answer))
        return self

    def reply(self, request: ModelRequest) -> Answer:
        aside = side_answer(request)
        if aside is not None:
            self.side_requests.append(request)
            return aside
        self.requests.append(request)
        self._announce()
        for fits, answer in self._rules:
            if fits(request):
                return answer
        if asks_for_summary(request):
            return summary("A short talk.")
        return self._queue.popleft() if self._queue else self._default

    async def seen(self, number: int, within: float = 60.0) -> ModelRequest:
        """Wait until `number` requests have come, `within` seconds at most; returns the last."""
        arrived = asyncio.Event()
        self._arrivals.append((number, arrived))
        self._announce()
        async with asyncio.timeout(within):
            await arrived.wait()
        return self.requests[number - 1]

    def _announce(self) -> None:
        for number, arrived in self._arrivals:
            if len(self.requests) >= number:
                arrived.set()


def _contains(condition: str | Predicate) -> Predicate:
    if isinstance(condition, str):
        return lambda request: condition in request.last_user_text
    return condition
