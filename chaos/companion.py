"""The model: whatever it says or does has a mark of its own, so that it can be found again."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator

from chaos.checker import TASK
from chaos.record import Record
from ollim_bot.offline.messages import CallTool, Failure, Hang, ModelRequest, Reply, Say, Stall
from ollim_bot.offline.rules import asks_for_summary, side_answer, summary
from ollim_bot.offline.scripted import Answer

_PING, _REPORT = "mcp__discord__ping_user", "mcp__discord__report_updates"
_LONG = " ".join(f"This is sentence number {number} of it." for number in range(70))
_MARK = re.compile(r"\b([apux]\d+)\b")


class Companion:
    """Answers each task, pings what it is reminded of, and fails as it is told to."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._failures: deque[tuple[str, Answer]] = deque()
        self._number = 0
        self._talks: dict[str, list[str]] = {}
        self.hits: list[str] = []
        self.is_hung = False

    def fail(self, name: str, failure: Failure) -> None:
        """The next request goes wrong so."""
        self._failures.append((name, failure))

    def mend(self) -> None:
        self._failures.clear()

    @property
    def is_well(self) -> bool:
        """Whether nothing more is to go wrong."""
        return not self._failures

    def reply(self, request: ModelRequest) -> Answer:
        aside = side_answer(request)
        if aside is not None:
            return aside
        if asks_for_summary(request):
            return summary("A short talk.")
        said = spoken(request)
        self._note(request, said)
        if self._failures:
            name, failure = self._failures.popleft()
            self.hits.append(name)
            self.is_hung |= isinstance(failure, Hang | Stall)
            return failure
        if _is_background(said):
            return self._work(request, said)
        return self._answer(request, said)

    def _work(self, request: ModelRequest, said: list[str]) -> Reply:
        about = re.match(r"\[(reminder-bg|routine-bg|webhook):(\w+)\]", request.last_user_text)
        if about is None:
            return Reply((Say("Done."),))
        report = CallTool(_REPORT, {"message": f"Report {self._mark('u')}."})
        if about[1] != "reminder-bg":
            return Reply((CallTool(_PING, {"message": f"Ping {self._mark('p')}"}), report))
        text = said[-1].rpartition("\n")[2]
        if int(about[2].lstrip("r") or 0) % 4 == 3:
            return Reply((Say("The owner knows already."),))
        return Reply((CallTool(_PING, {"message": text}), report), pace=0.01)

    def _answer(self, request: ModelRequest, said: list[str]) -> Reply:
        if "Call `report_updates` now" in request.last_user_text:
            return Reply((CallTool(_REPORT, {"message": f"Report {self._mark('u')}."}),))
        tasks = TASK.findall(request.last_user_text)
        if tasks and int(tasks[0][1:]) % 4 == 0:
            return self._call()
        is_continued = "restarted" in request.last_user_text or request.tool_results
        if is_continued and not tasks:
            tasks = _last_tasks(said)
        mark = self._mark("a")
        self._record.note("model", {"event": "answer", "mark": mark, "tasks": tasks})
        number = int(mark[1:])
        rest = _LONG if number % 3 == 1 else "It is done."
        words = f"[{mark}] About {', '.join(tasks)}. {rest} [/{mark}]"
        return Reply((Say(words),), pace=0.02, chunk=40)

    def _call(self) -> Reply:
        """Something is done before it is answered, and leaves a trace."""
        command = f"ollim-bot reminder add -m 'Buy {self._mark('x')}.' --in 60m"
        return Reply((Say("Let me see. "), CallTool("Bash", {"command": command})), pace=0.01)

    def _mark(self, kind: str) -> str:
        self._number += 1
        return f"{kind}{self._number}"

    def _note(self, request: ModelRequest, said: list[str]) -> None:
        for mark, text, is_error in results(request):
            row = {"event": "called", "mark": mark, "is_done": not is_error, "result": text}
            self._record.note("model", row)
        if request.last_user_text:
            self._record.note("model", {"event": "asked", "prompt": request.last_user_text})
        self._talks[_session(request)] = said
        rows = [{"session": name, "texts": texts} for name, texts in self._talks.items()]
        self._record.replace("talks", rows)


def _is_background(said: list[str]) -> bool:
    """Not if the owner has replied to what came of it, and so talks to who has done it."""
    for text in reversed(said):
        if "BACKGROUND RUN" in text:
            return True
        if TASK.search(text) or text.startswith("[fork-started]"):
            return False
    return False


def _last_tasks(said: list[str]) -> list[str]:
    """What an answer that goes on is about; what stands before a fork is of another one."""
    for text in reversed(said):
        if (tasks := TASK.findall(text)) or text.startswith("[fork-started]"):
            return tasks
    return []


def _session(request: ModelRequest) -> str:
    about = request.body.get("metadata")
    user = about.get("user_id", "{}") if isinstance(about, dict) else "{}"
    return str(json.loads(user).get("session_id", ""))


def spoken(request: ModelRequest) -> list[str]:
    """What was said to the model so far."""
    return [text.strip() for one in request.messages if one.role == "user" for text in one.texts]


def results(request: ModelRequest) -> Iterator[tuple[str, str, bool]]:
    """The marks of the calls whose results the request brings, with what came of them."""
    called = {
        str(block.get("id")): json.dumps(block.get("input"))
        for message in request.messages
        for block in message.of_type("tool_use")
    }
    for result in request.tool_results:
        for mark in _MARK.findall(called.get(result.call_id, "")):
            yield mark, result.text, result.is_error
