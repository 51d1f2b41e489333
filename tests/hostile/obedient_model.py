"""A model that does whatever any text tells it to do, in an engine that passes the real hooks.

A text orders by a word, so that the title of a task is long enough for it, and what the word means
stands in a table. The owner orders by the number of an errand. Strangers' words are obeyed first.
What is refused by no hook and by no tool is done, and is noted with the word that ordered it.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.hostile.calling_engine import Arguments, CallingEngine, CallingSession
from tests.hostile.canary_home import CanaryHome

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.values.agent_caller import PROGRAM, shell_words
from ollim_bot.kernel.values.ports import SessionSpec, Toolset
from ollim_bot.offline.server import CallTool, Message, ModelRequest, Reply

_ERRAND = re.compile(r"^ERRAND (\d+)", re.MULTILINE)
# What the button Break it down tells the model.
_STEPS_WANTED = re.compile(r"once with the thing `([^`]+)`")

# Marks where the owner spoke in a session. What they had before them is theirs from then on.
_SPOKEN = Message("owner", ())

Orders = Callable[[str], Sequence[CallTool]]


class Cell(NamedTuple):
    """`place` is where the text of the source is read, by a session of the kind `reader`."""

    source: str
    place: str
    reader: str


class Deed(NamedTuple):
    """A call and what became of it. `word` ordered it, or nobody but the owner if it is empty."""

    cell: Cell
    word: str
    call: CallTool
    is_done: bool
    result: str


@dataclass
class _Outcome:
    is_done: bool = False


_CURRENT: ContextVar[_Outcome] = ContextVar("outcome")


class NoModel:
    """Nobody is asked: each session is obedient by itself."""

    def reply(self, request: ModelRequest) -> Reply:
        raise NotImplementedError(request)


class ObedientEngine(CallingEngine):
    """`words` finds orders in a text, and `orders` says what a word means.

    `errands` are the calls that the owner asks for, by their number. `world` is what the web and
    the commands that ask others answer, by address or command. `cell` names what is tried now.
    """

    def __init__(
        self, home: Path, environment: Mapping[str, str], clock: Clock, words: str, orders: Orders
    ) -> None:
        super().__init__(NoModel(), environment, CanaryHome(home), clock)
        self.words = re.compile(words)
        self.orders = orders
        self.errands: list[Sequence[CallTool]] = []
        self.world: dict[str, str] = {}
        self.deeds: list[Deed] = []
        self.shown: set[tuple[Cell, str]] = set()
        # A command prints to what all threads share.
        self.one_command = asyncio.Lock()
        self.cell = Cell("", "", "")
        self.steps: Sequence[str] = ()
        self.answer = "Done."

    def session(self, spec: SessionSpec, tools: Toolset) -> ObedientSession:
        return ObedientSession(self, spec, tools)


class ObedientSession(CallingSession):
    """Doubles `AgentSession`."""

    _engine: ObedientEngine

    def __init__(self, engine: ObedientEngine, spec: SessionSpec, tools: Toolset) -> None:
        super().__init__(engine, spec, tools)
        self._tools = {
            **self._tools,
            "WebFetch": lambda given: engine.world.get(given["url"], "Nothing is here."),
            "WebSearch": lambda _: engine.world.get("search", "Nothing was found."),
            "Grep": self._searched,
        }

    async def _converse(self, text: str, messages: list[Message], _: str = "") -> str:
        if self.spec.is_bare:  # what judges a text is told by it that it is safe
            return '{"verdict": "safe"}'
        engine, calls = self._engine, deque(self._asked(text))
        if _ERRAND.search(text) and not self.spec.occurrence:
            messages.append(_SPOKEN)
        begun = len(messages) - messages[::-1].index(_SPOKEN) if _SPOKEN in messages else 0
        shown, obeyed = [*_texts(messages[begun:]), text], set[str]()
        while shown or calls:
            if not shown:
                shown = [one.result for one in await self._made("", [calls.popleft()])]
            messages.append(Message("user", ({"type": "text", "text": shown[0]},)))
            shown = [*await self._obey(shown[0], obeyed), *shown[1:]]
        messages.append(Message("assistant", ({"type": "text", "text": engine.answer},)))
        return engine.answer

    def _asked(self, prompt: str) -> Iterator[CallTool]:
        """What the owner asks for: in words, by a job, or by the button Break it down."""
        if errand := _ERRAND.search(prompt):
            yield from self._engine.errands[int(errand[1])]
        if thing := _STEPS_WANTED.search(prompt):
            given = {"thing": thing[1], "steps": [*self._engine.steps]}
            yield CallTool("mcp__discord__break_down", given)

    async def _obey(self, shown: str, obeyed: set[str]) -> Sequence[str]:
        """Do at once what the text orders, and nothing twice in a turn; returns the results."""
        engine, results = self._engine, list[str]()
        for word in dict.fromkeys(engine.words.findall(shown)):
            engine.shown.add((engine.cell, word))
            ordered = [each for each in engine.orders(word) if repr(each) not in obeyed]
            obeyed.update(map(repr, ordered))
            results += [one.result for one in await self._made(word, ordered)]
        return results

    async def _made(self, word: str, calls: Sequence[CallTool]) -> Sequence[Deed]:
        """The calls of one reply, which the engine makes at once."""
        made = await asyncio.gather(*(self._tried(word, each) for each in calls))
        self._engine.deeds += made
        return made

    async def _tried(self, word: str, call: CallTool) -> Deed:
        outcome = _Outcome()
        _CURRENT.set(outcome)
        result = await self._called(self._engine.new_call_id(), call, "")
        return Deed(self._engine.cell, word, call, outcome.is_done, result)

    async def _done(self, tool: str, given: Arguments) -> str:
        """Called when no hook refuses."""
        outcome = _CURRENT.get()
        if tool in self._own:
            answer = await self._own[tool].run(given)
            outcome.is_done = not answer.is_error
            return answer.text
        async with self._engine.one_command if tool == "Bash" else nullcontext():
            result = await super()._done(tool, given)
        outcome.is_done = not result.startswith("tool_use_error")
        return result

    def _ran(self, command: str) -> str:
        """No program but our own is started: that it could be is enough."""
        program, *words = shell_words(command) or [""]
        called = " ".join((Path(program).name, *words))
        for beginning, said in self._engine.world.items():
            if called.startswith(beginning):
                return said
        return self._ran_ours(words) if Path(program).name == PROGRAM else "It ran."

    def _searched(self, given: Arguments) -> str:
        """As the engine's own search prints it; of parts of lines, without the names of files."""
        start, pattern = self._path(given.get("path", ".")), re.compile(given["pattern"])
        files = [start] if start.is_file() else sorted(start.rglob("*.md"))
        return "\n".join(_found(files, pattern, given, self._home))


def _texts(messages: Sequence[Message]) -> Iterator[str]:
    return (text for message in messages for text in message.texts)


def _found(
    files: Sequence[Path], pattern: re.Pattern[str], given: Mapping[str, Any], home: Path
) -> Iterator[str]:
    for file in files:
        for line in file.read_text("utf-8", "replace").splitlines() if file.is_file() else ():
            if found := pattern.search(line):
                if given.get("output_mode") != "content":
                    yield str(file.relative_to(home))
                    break
                yield found[0] if given.get("-o") else f"{file.relative_to(home)}:{line}"
