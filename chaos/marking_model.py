"""The scripted model of the harness, which puts a unique mark into all that it says and does."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator

from devtools.scripted_model import Answer

from chaos.checker import TASK
from chaos.record import Record
from ollim_bot.offline.rules import asks_for_summary, side_answer, summary
from ollim_bot.offline.server import CallTool, Failure, Hang, ModelRequest, Reply, Say, Stall

_PING, _REPORT = "mcp__discord__ping_user", "mcp__discord__report_updates"
_LONG = " ".join(f"This is sentence number {number} of it." for number in range(70))
_MARK = re.compile(r"\b([apux]\d+)\b")


class MarkingModel:
    """Answers each task, pings for each reminder, and fails when a failure is pending.

    By the marks the checker finds each answer, ping, update and tool call again. `hits` has the
    names of the failures that happened. `done` has the marks of the calls whose success the model
    was told. `is_hung` is set once a failure never ends by itself.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._failures: deque[tuple[str, Answer]] = deque()
        self._number = 0
        self._conversations: dict[str, list[str]] = {}
        self.hits: list[str] = []
        self.done: set[str] = set()
        self.is_hung = False

    def fail_next(self, name: str, failure: Failure) -> None:
        self._failures.append((name, failure))

    def clear_failures(self) -> None:
        self._failures.clear()

    @property
    def has_pending_failures(self) -> bool:
        return bool(self._failures)

    def reply(self, request: ModelRequest) -> Answer:
        aside = side_answer(request)
        if aside is not None:
            return aside
        if asks_for_summary(request):
            return summary("A short talk.")
        prompts = prompts_of(request)
        self._note(request, prompts)
        if self._failures:
            name, failure = self._failures.popleft()
            self.hits.append(name)
            self.is_hung |= isinstance(failure, Hang | Stall)
            return failure
        if _is_background(prompts):
            return self._background_reply(request, prompts)
        return self._answer(request, prompts)

    def _background_reply(self, request: ModelRequest, prompts: list[str]) -> Reply:
        about = re.match(r"\[(reminder-bg|routine-bg|webhook):(\w+)\]", request.last_user_text)
        if about is None:
            return Reply((Say("Done."),))
        report = CallTool(_REPORT, {"message": f"Report {self._mark('u')}."})
        if about[1] != "reminder-bg":
            return Reply((CallTool(_PING, {"message": f"Ping {self._mark('p')}"}), report))
        text = prompts[-1].rpartition("\n")[2]
        if int(about[2].lstrip("r") or 0) % 4 == 3:
            return Reply((Say("The owner knows already."),))
        return Reply((CallTool(_PING, {"message": text}), report), pace=0.01)

    def _answer(self, request: ModelRequest, prompts: list[str]) -> Reply:
        if "Call `report_updates` now" in request.last_user_text:
            return Reply((CallTool(_REPORT, {"message": f"Report {self._mark('u')}."}),))
        tasks = TASK.findall(request.last_user_text)
        if tasks and int(tasks[0][1:]) % 4 == 0:
            return self._tool_call()
        is_continued = "restarted" in request.last_user_text or request.tool_results
        if is_continued and not tasks:
            tasks = _last_tasks(prompts)
        mark = self._mark("a")
        self._record.note("model", {"event": "answer", "mark": mark, "tasks": tasks})
        number = int(mark[1:])
        rest = _LONG if number % 3 == 1 else "It is done."
        words = f"[{mark}] About {', '.join(tasks)}. {rest} [/{mark}]"
        return Reply((Say(words),), pace=0.02, chunk=40)

    def _tool_call(self) -> Reply:
        """A tool call before the answer; it leaves a reminder file for the checker."""
        command = f"ollim-bot reminder add -m 'Buy {self._mark('x')}.' --in 60m"
        return Reply((Say("Let me see. "), CallTool("Bash", {"command": command})), pace=0.01)

    def _mark(self, kind: str) -> str:
        self._number += 1
        return f"{kind}{self._number}"

    def _note(self, request: ModelRequest, prompts: list[str]) -> None:
        for mark, text, is_error in marked_results(request):
            row = {"event": "called", "mark": mark, "is_done": not is_error, "result": text}
            self._record.note("model", row)
            if not is_error:
                self.done.add(mark)
        if request.last_user_text:
            self._record.note("model", {"event": "asked", "prompt": request.last_user_text})
        self._conversations[_session_of(request)] = prompts
        rows = [{"session": name, "texts": texts} for name, texts in self._conversations.items()]
        self._record.replace("talks", rows)


def _is_background(prompts: list[str]) -> bool:
    """Whether the latest prompts are those of a background run.

    After the owner's reply to a ping the session of the run is a conversation with the owner.
    """
    for text in reversed(prompts):
        if "BACKGROUND RUN" in text:
            return True
        if TASK.search(text) or text.startswith("[fork-started]"):
            return False
    return False


def _last_tasks(prompts: list[str]) -> list[str]:
    """The tasks of the latest prompt that has any, not looking beyond the start of a fork."""
    for text in reversed(prompts):
        if (tasks := TASK.findall(text)) or text.startswith("[fork-started]"):
            return tasks
    return []


def _session_of(request: ModelRequest) -> str:
    about = request.body.get("metadata")
    user = about.get("user_id", "{}") if isinstance(about, dict) else "{}"
    return str(json.loads(user).get("session_id", ""))


def prompts_of(request: ModelRequest) -> list[str]:
    """What the model was told so far."""
    return [text.strip() for one in request.messages if one.role == "user" for text in one.texts]


def marked_results(request: ModelRequest) -> Iterator[tuple[str, str, bool]]:
    """The mark, result text and error flag of each finished tool call in the request."""
    called = {
        str(block.get("id")): json.dumps(block.get("input"))
        for message in request.messages
        for block in message.of_type("tool_use")
    }
    for result in request.tool_results:
        for mark in _MARK.findall(called.get(result.call_id, "")):
            yield mark, result.text, result.is_error
