"""The model of these years: what it says and does has a mark, and it is not always well."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from random import Random

from chaos.checker import TASK
from chaos.record import Record
from chaos.years.hurry import WallClock
from chaos.years.mind import Step, Takes
from ollim_bot.domain.sessions import SessionId
from ollim_bot.testing.engine import CallsTool, Says

_PING, _REPORT = "mcp__discord__ping_user", "mcp__discord__report_updates"
_FOLLOW_UP = "mcp__discord__follow_up_chain"
_JOB = re.compile(r"\[(reminder|routine)-bg:([\w-]+)\]")
_MARK = re.compile(r"\b([pu]\d+)\b")
_GOES_ON = "was restarted"
_LONGEST_HEAD = 160
_REMEMBERED = 50


class Companion:
    """Answers each task, and does in the background what its luck tells it to.

    `faults` are what the next requests come to instead.
    """

    def __init__(self, record: Record, clock: WallClock, luck: Random) -> None:
        self.faults: deque[Step] = deque()
        self._record = record
        self._clock = clock
        self._luck = luck
        self._number = 0
        self._beside: deque[SessionId] = deque(maxlen=_REMEMBERED)
        self._forks: deque[SessionId] = deque(maxlen=_REMEMBERED)
        self._tasks: dict[SessionId, list[str]] = {}

    def reply(self, session: SessionId, prompt: str) -> Sequence[Step]:
        job = _JOB.match(prompt)
        if job:
            self._beside.append(session)
        elif "[fork-started]" in prompt:
            self._forks.append(session)
        self._note(session, prompt)
        first = Takes(self._luck.choice((0.5, 3, 3, 20, 40)))
        if self.faults:
            return first, self.faults.popleft()
        if job:
            return first, *self._work(job[1], job[2], prompt)
        if session in self._beside or "Call `report_updates` now" in prompt:
            return first, self._report()
        return first, self._answer(session, prompt)

    def called(self, call: CallsTool, text: str, *, is_done: bool) -> None:
        when = {"at": self._clock.utc().isoformat(), "passed": self._clock.monotonic()}
        for mark in _MARK.findall(str(call.arguments.get("message", ""))):
            row = {"event": "called", "mark": mark, "is_done": is_done, "result": text}
            self._record.note("model", row | when)

    def _work(self, kind: str, name: str, prompt: str) -> list[Step]:
        luck = self._luck.random()
        if kind == "routine":
            ping = CallsTool(_PING, {"message": f"Ping {self._mark('p')}"})
            if luck < 0.45:
                return [ping, self._report()]
            if luck < 0.6:
                return [ping]
            return [self._report()] if luck < 0.8 else [Says("There is nothing to say.")]
        text = prompt.rstrip().rpartition("\n")[2]
        if name.startswith("c") and luck < 0.7:
            minutes = self._luck.randint(5, 200)
            return [
                CallsTool(_PING, {"message": text}),
                CallsTool(_FOLLOW_UP, {"minutes_from_now": minutes}),
            ]
        if luck < 0.25:
            return [Says("The owner knows already.")]
        slow: list[Step] = [Takes(self._luck.uniform(50, 150))] if luck > 0.8 else []
        return [*slow, CallsTool(_PING, {"message": text}), self._report()]

    def _report(self) -> CallsTool:
        return CallsTool(_REPORT, {"message": f"Report {self._mark('u')}."})

    def _answer(self, session: SessionId, prompt: str) -> Says:
        tasks = TASK.findall(prompt)
        if not tasks and _GOES_ON in prompt:
            tasks = self._tasks.get(session, [])
        mark = self._mark("a")
        self._record.note("model", {"event": "answer", "mark": mark, "tasks": tasks})
        return Says(f"[{mark}] About {', '.join(tasks)}. It is done. [/{mark}]")

    def _mark(self, kind: str) -> str:
        self._number += 1
        return f"{kind}{self._number}"

    def _note(self, session: SessionId, prompt: str) -> None:
        at = self._clock.utc().isoformat()
        row = {"event": "asked", "prompt": prompt[:_LONGEST_HEAD], "at": at}
        self._record.note("model", row)
        if session not in self._beside and _GOES_ON not in prompt:
            self._tasks[session] = TASK.findall(prompt)
        if session not in self._beside and session not in self._forks:
            self._record.note("told", {"text": prompt})
