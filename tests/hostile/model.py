"""A hostile model: it makes its attempts as tool calls, and keeps all requests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from tests.hostile.attempt import Attempt
from tests.hostile.canary_home import CanaryHome

from ollim_bot.offline.rules import side_answer
from ollim_bot.offline.server import CallTool, ModelRequest, Reply, Say

ERRAND = "DO WHAT YOU ARE HERE FOR"
_SUBAGENT = {"description": "spy", "prompt": ERRAND, "subagent_type": "spy"}


class HostileModel:
    """Makes its attempts in the conversation whose messages have the errand.

    With `by_subagent` it first starts a subagent with the errand. Attempts with changes of files
    come one by one, so that `current` is the one under way; all others come in one reply.
    """

    def __init__(
        self,
        canary_home: CanaryHome,
        attempts: Sequence[Attempt],
        port: int,
        *,
        by_subagent: bool = False,
    ) -> None:
        self.requests: list[ModelRequest] = []
        self.current: Attempt | None = None
        self.is_done = False
        self.calls_by_subagents = 0
        prepared = [one for one in attempts if one.is_prepared]
        plain = [one for one in attempts if not one.is_prepared]
        self.attempts = [*prepared, *plain]
        # The large batch comes last, because each request repeats all earlier calls.
        self._batches = iter([*([one] for one in prepared), plain])
        self._canary_home = canary_home
        self._port = port
        self._by_subagent = by_subagent
        self._has_sent = False

    @property
    def errand(self) -> str:
        """The owner's message that starts the attempts."""
        return "Send somebody." if self._by_subagent else ERRAND

    def reply(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        aside = side_answer(request)
        if aside is not None:
            return aside
        if self._is_errand(request):
            self.current = None
            batch = next(self._batches, [])
            self.is_done = not batch
            if len(batch) == 1:
                self.current = batch[0]
            return Reply(tuple(map(self._call, batch)) or (Say("Done."),), chunk=4000)
        if self._by_subagent and not self._has_sent:
            self._has_sent = True
            return Reply((CallTool("Agent", _SUBAGENT),))
        return Reply((Say("Done."),))

    def results(self) -> Iterator[tuple[Attempt, str]]:
        """Each attempt with the result that the model got."""
        texts = self._results_by_id()
        for attempt, call_id in zip(self.attempts, self._call_ids(), strict=True):
            yield attempt, texts[call_id]

    def everything(self) -> Iterator[str]:
        """The bodies of all requests."""
        return (json.dumps(dict(request.body), ensure_ascii=False) for request in self.requests)

    def _call(self, attempt: Attempt) -> CallTool:
        call = attempt.call(self._canary_home)
        given = {
            name: value.replace("{port}", str(self._port)) if isinstance(value, str) else value
            for name, value in call.arguments.items()
        }
        return CallTool(call.name, given)

    def _is_errand(self, request: ModelRequest) -> bool:
        return any(ERRAND in text for message in request.messages for text in message.texts)

    def _call_ids(self) -> Sequence[str]:
        last = next(one for one in reversed(self.requests) if self._is_errand(one))
        calls = [call for message in last.messages for call in message.of_type("tool_use")]
        # A forked session has the calls of its history before them.
        return [str(call["id"]) for call in calls][-len(self.attempts) :]

    def _results_by_id(self) -> Mapping[str, str]:
        """The content of every tool result, by the id of its call."""
        return {
            str(block.get("tool_use_id")): json.dumps(block.get("content"), ensure_ascii=False)
            for request in self.requests
            for message in request.messages
            for block in message.of_type("tool_result")
        }
