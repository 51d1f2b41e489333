"""The model of a simulated year: it marks its texts to find them again, and can fail and hang."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from random import Random

from devtools.doubles.engine import CallsTool, Says

from chaos.checker import TASK
from chaos.record import Record
from chaos.years.simulated_engine import Step, TakesTime
from chaos.years.virtual_time import VirtualWallClock
from ollim_bot.kernel.base.ids import SessionId

_PING, _REPORT = "mcp__discord__ping_user", "mcp__discord__report_updates"
_FOLLOW_UP = "mcp__discord__follow_up_chain"
_JOB = re.compile(r"\[(reminder|routine)-bg:([\w-]+)\]")
_MARK = re.compile(r"\b([pu]\d+)\b")
_AFTER_RESTART = "was restarted"
_LONGEST_NOTED_PROMPT = 160
_REMEMBERED_SESSIONS = 50


class SimulatedModel:
    """Answers each task of the owner, and takes random steps in background runs.

    Each step in `faults` replaces the reply to one of the next prompts.
    """

    def __init__(self, record: Record, clock: VirtualWallClock, rng: Random) -> None:
        self.faults: deque[Step] = deque()
        self._record = record
        self._clock = clock
        self._rng = rng
        self._number = 0
        self._background_sessions: deque[SessionId] = deque(maxlen=_REMEMBERED_SESSIONS)
        self._fork_sessions: deque[SessionId] = deque(maxlen=_REMEMBERED_SESSIONS)
        self._tasks_by_session: dict[SessionId, list[str]] = {}

    def reply(self, session: SessionId, prompt: str) -> Sequence[Step]:
        job = _JOB.match(prompt)
        if job:
            self._background_sessions.append(session)
        elif "[fork-started]" in prompt:
            self._fork_sessions.append(session)
        self._note_prompt(session, prompt)
        delay = TakesTime(self._rng.choice((0.5, 3, 3, 20, 40)))
        if self.faults:
            return delay, self.faults.popleft()
        if job:
            return delay, *self._background_steps(job[1], job[2], prompt)
        if session in self._background_sessions or "Call `report_updates` now" in prompt:
            return delay, self._report()
        return delay, self._answer(session, prompt)

    def note_call(self, call: CallsTool, result: str, *, is_done: bool) -> None:
        when = {"at": self._clock.utc().isoformat(), "passed": self._clock.monotonic()}
        for mark in _MARK.findall(str(call.arguments.get("message", ""))):
            row = {"event": "called", "mark": mark, "is_done": is_done, "result": result}
            self._record.note("model", row | when)

    def _background_steps(self, kind: str, name: str, prompt: str) -> list[Step]:
        chance = self._rng.random()
        if kind == "routine":
            ping = CallsTool(_PING, {"message": f"Ping {self._new_mark('p')}"})
            if chance < 0.45:
                return [ping, self._report()]
            if chance < 0.6:
                return [ping]
            return [self._report()] if chance < 0.8 else [Says("There is nothing to say.")]
        text = prompt.rstrip().rpartition("\n")[2]
        if name.startswith("c") and chance < 0.7:
            minutes = self._rng.randint(5, 200)
            return [
                CallsTool(_PING, {"message": text}),
                CallsTool(_FOLLOW_UP, {"minutes_from_now": minutes}),
            ]
        if chance < 0.25:
            return [Says("The owner knows already.")]
        slow: list[Step] = [TakesTime(self._rng.uniform(50, 150))] if chance > 0.8 else []
        return [*slow, CallsTool(_PING, {"message": text}), self._report()]

    def _report(self) -> CallsTool:
        return CallsTool(_REPORT, {"message": f"Report {self._new_mark('u')}."})

    def _answer(self, session: SessionId, prompt: str) -> Says:
        tasks = TASK.findall(prompt)
        if not tasks and _AFTER_RESTART in prompt:
            tasks = self._tasks_by_session.get(session, [])
        mark = self._new_mark("a")
        self._record.note("model", {"event": "answer", "mark": mark, "tasks": tasks})
        return Says(f"[{mark}] About {', '.join(tasks)}. It is done. [/{mark}]")

    def _new_mark(self, kind: str) -> str:
        self._number += 1
        return f"{kind}{self._number}"

    def _note_prompt(self, session: SessionId, prompt: str) -> None:
        at = self._clock.utc().isoformat()
        row = {"event": "asked", "prompt": prompt[:_LONGEST_NOTED_PROMPT], "at": at}
        self._record.note("model", row)
        if session not in self._background_sessions and _AFTER_RESTART not in prompt:
            self._tasks_by_session[session] = TASK.findall(prompt)
        if session not in self._background_sessions and session not in self._fork_sessions:
            self._record.note("told", {"text": prompt})
