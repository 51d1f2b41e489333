"""Types what a person types on the first day into a conversation with the built-in model.

`python -m tests.offline.first_day_runner FILE` runs the phrases and dialogues of such a file, and
prints for each whether it was right, asked about, or wrong. The form of a file, and what an outcome
is, stand in `first_day.py`.

Everything runs in this process: the conversation, its tools and its cards. Only our commands in the
shell are doubled, with the answers that the terminal would give.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from devtools.doubles.clock import ManualClock
from tests.e2e.model_engine import ModelEngine, ModelSession
from tests.kernel.conversation.scene import Scene, scene
from tests.offline.test_everyday import COMING, DENTIST, ROUTINES

from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.events import (
    AgentEvent,
    EndCause,
    SessionNamed,
    TextCompleted,
    TurnEnded,
)
from ollim_bot.kernel.values.jobs import ItemKind, JobSpec, Reminder
from ollim_bot.kernel.values.occurrences import Answer, Occurrence
from ollim_bot.kernel.values.phrases.durations import parse_duration
from ollim_bot.kernel.values.phrases.moment import parse_day, parse_moment
from ollim_bot.kernel.values.phrases.rhythm import parse_rhythm
from ollim_bot.kernel.values.ports import Prompt, SessionSpec, Toolset
from ollim_bot.kernel.values.runs import DeliveryRight
from ollim_bot.kernel.values.wishes import wish_from_words
from ollim_bot.offline import texts
from ollim_bot.offline.rules import OfflineModel
from ollim_bot.offline.server import CallTool, Message, ModelRequest, Reply, Say

NOW = datetime(2026, 11, 16, 10, 15, tzinfo=UTC)
SET = {
    "a1a1a1a1": ("pay the rent", datetime(2026, 11, 17, 12, 0, tzinfo=UTC)),
    "b2b2b2b2": ("water the plants", datetime(2026, 11, 16, 18, 0, tzinfo=UTC)),
    "c3c3c3c3": ("call the dentist", datetime(2026, 11, 17, 9, 30, tzinfo=UTC)),
}
NAMES = {
    "a1a1a1a1": "rent", "b2b2b2b2": "plants", "c3c3c3c3": "dentist", "d4d4d4d4": "meds",
    "e5e5e5e5": "plan", "f6f6f6f6": "stretch", "1b1b1b1b": "stamps", "2c2c2c2c": "tax form",
    "3d3d3d3d": "card",
}  # fmt: skip
TASKS = (
    "2c2c2c2c  hand in the tax form · due Fri 20 Nov\n1b1b1b1b  buy stamps\n3d3d3d3d  buy a card"
)
LISTS = {
    "list today": texts.TODAY, "list tomorrow": texts.TOMORROW, "list week": texts.THE_WEEK,
    "list tasks": texts.TASKS,
}  # fmt: skip
ANSWERS = {
    Answer.DONE: "done", Answer.TAKEN: "taken", Answer.NOT_TAKEN: "skipped", Answer.LET_GO: "let go"
}  # fmt: skip
CARD = re.compile(r"(?P<hour>\d\d):(?P<minute>\d\d)(?P<dose> dose)?: (?P<text>.+)")

Turn = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    verdict: str
    """`right`, `asked` or `wrong`."""
    found: str


class OfflineEngine(ModelEngine):
    """Doubles `AgentEngine` with the built-in model; `commands` are those that it ran."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(OfflineModel(), clock)
        self.commands: list[list[str]] = []
        self.made = count(1)
        # The routines by their ids, with their titles and cron lines.
        self.routines = {
            "d4d4d4d4": ("meds", "0 8 * * *"),
            "e5e5e5e5": ("plan", "0 9 * * 1-5"),
            "f6f6f6f6": ("stretch", "0 11 * * *"),
        }

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ModelSession]:
        async with super().open(spec, tools):
            yield OfflineSession(self, spec, tools)

    def run(self, command: str) -> str:
        """The answer of the terminal to one of our commands."""
        match shlex.split(command)[1:]:
            case ["routine", "list"]:
                new = list(self.routines.items())[3:]
                return "\n".join([ROUTINES, *(f"{name}  today 11:00  {of[0]}" for name, of in new)])
            case ["routine", "show", name]:
                return f"{name}\n  when       at some time (cron {self.routines[name][1]})\n"
            case ["tasks", "list", *_]:
                return TASKS
            case ["rehearse", *_]:
                return COMING
            case ["cal", *_]:
                return json.dumps({"events": [DENTIST]})
            case [*words]:
                self.commands.append(words)
                name = words[2].removeprefix("--message=")
                if words[:2] == ["routine", "add"]:
                    made = f"7777777{next(self.made)}"
                    cron = parse_rhythm(words[-1], NOW) if words[-2] == "--every" else words[-1]
                    wish = wish_from_words(name, JobKind.ROUTINE, {})
                    self.routines[made] = (wish.text, cron)
                    return f"Routine set: {name}.\nid {made}, file ~/routines/it.md"
                if words[:2] == ["routine", "edit"]:
                    self.routines[name] = (self.routines[name][0], words[-1])
                    return f"Routine changed: {self.routines[name][0]}."
                return f"{words[0].capitalize()} {words[1]}: {NAMES.get(name, words[-1])}."


class OfflineSession(ModelSession):
    """Doubles `AgentSession`."""

    async def _followed(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        messages = self._begun().messages
        assert self.spec.resume is not None
        yield SessionNamed(self.spec.resume)
        messages.append(Message("user", ({"type": "text", "text": prompt.text},)))
        while True:
            request = ModelRequest("m", tuple(messages), tools=("Bash", *self._own))
            reply = self._engine.model.reply(request)
            assert isinstance(reply, Reply)
            blocks = [await self._block(part) for part in reply.parts]
            messages.append(Message("assistant", tuple(block for block, _ in blocks)))
            if results := [result for _, result in blocks if result]:
                messages.append(Message("user", tuple(results)))
                continue
            said = "\n\n".join(part.text for part in reply.parts if isinstance(part, Say))
            yield TextCompleted(said)
            yield TurnEnded(EndCause.COMPLETED, said)
            return

    @property
    def _own(self) -> dict[str, Any]:
        servers = self.tools.servers.items()
        return {f"mcp__{name}__{tool.name}": tool for name, tools in servers for tool in tools}

    async def _block(self, part: object) -> tuple[dict[str, object], dict[str, object] | None]:
        if isinstance(part, Say):
            return {"type": "text", "text": part.text}, None
        assert isinstance(part, CallTool)
        name, (text, is_error) = self._engine.new_call_id(), await self._called(part)
        use: dict[str, object] = {
            "type": "tool_use",
            "id": name,
            "name": part.name,
            "input": part.arguments,
        }
        told: dict[str, object] = {
            "type": "tool_result", "tool_use_id": name, "content": text, "is_error": is_error
        }  # fmt: skip
        return use, told

    async def _called(self, call: CallTool) -> tuple[str, bool]:
        assert isinstance(self._engine, OfflineEngine)
        if call.name == "Bash":
            return self._engine.run(str(call.arguments["command"])), False
        try:
            answer = await self._own[call.name].run(call.arguments)
        except OllimError as refused:
            return str(refused), True
        return answer.text, answer.is_error


@dataclass
class Day:
    """A conversation at 10:15, and what has changed since the last look."""

    at: Scene
    engine: OfflineEngine
    reminders: dict[str, Reminder] = field(default_factory=dict)
    items: dict[str, DueItem] = field(default_factory=dict)
    seen: int = 0

    async def take(self, turn: str) -> tuple[list[str], str]:
        """The changes of a turn, and the words and buttons that the owner sees."""
        self.engine.commands.clear()
        self.seen = len(self.at.log)
        replied = re.fullmatch(r"reply to `(.+)`: (.+)", turn)
        if card := re.fullmatch(r"card: (.+)", turn):
            await self.show(card[1])
        elif turn.startswith("/"):
            await self.at.chat.command("web", turn)
        elif pressed := re.fullmatch(r"press: (.+)", turn):
            await self._press(pressed[1])
        elif replied:
            shown = next(each for each in reversed(self.at.log) if replied[1] in each.text)
            await self.at.send(replied[2], f"reply-{self.seen}", reply_to=shown.id)
        else:
            await self.at.send(turn, f"said-{self.seen}")
        await self.at.quiet()
        new = self.at.log[self.seen :]
        said = "\n".join(_shown(each) for each in new if each.author != "owner")
        return list(self._changes(said, named=not replied)), said

    async def show(self, card: str) -> None:
        found = CARD.fullmatch(card)
        assert found is not None
        due = NOW.replace(hour=int(found["hour"]), minute=int(found["minute"]))
        name = f"{len(self.items):08x}"
        kind = ItemKind.DOSE if found["dose"] else None
        spec = JobSpec(id=name, message=found["text"], background=True, plain=True, kind=kind)
        moment = Occurrence.scheduled(JobKind.REMINDER, name, due)
        await self.at.talk.reminders.deliver(Reminder(spec, due), moment, DeliveryRight(), "")
        self.look()

    async def _press(self, label: str) -> None:
        for message in reversed(self.at.log):
            for button in message.card.buttons if message.card else ():
                if label.casefold() in button.label.casefold() and not button.is_used:
                    await self.at.chat.click("web", message.id, button.custom_id)
                    return
        raise AssertionError(f"There is no button {label}.")

    def look(self) -> None:
        self.reminders = {each.item.spec.id: each.item for each in self.at.stores.reminders.all()}
        known = [self._item(key) for key in self.items]
        found = (*self.at.store.query(lambda tx: tx.due_items.open()), *known)
        self.items = {each.key: each for each in found if each is not None}

    def _item(self, key: str) -> DueItem | None:
        return self.at.store.query(lambda tx: tx.due_items.get(key))

    def _changes(self, said: str, *, named: bool) -> Iterator[str]:
        reminders, items = self.reminders, self.items
        self.look()
        copies = {each.copy for each in self.items.values()}
        for name in self.reminders.keys() - reminders.keys() - copies:
            yield _reminder(self.reminders[name])
        old_copies = {each.copy for each in items.values() if each.copy}
        for name in reminders.keys() - self.reminders.keys() - old_copies:
            yield f"cancel {NAMES.get(name) or reminders[name].spec.message}"
        for key, item in self.items.items():
            before = items.get(key)
            if before is not None and before.answer != item.answer:
                if item.answer is None:
                    yield f"undo {item.title}"
                else:
                    is_named = not named or item.title in said
                    yield f"settle {item.title}: {_answer(item)}" + ("" if is_named else " unnamed")
        yield from (self._command(each) for each in self.engine.commands)

    def _command(self, words: Sequence[str]) -> str:
        match words:
            case ["routine", "add", message, flag, when]:
                cron = parse_rhythm(when, NOW) if flag == "--every" else when
                return f"routine: {_wished(message.removeprefix('--message='), cron)}"
            case ["tasks", "add", *rest]:
                due = "".join(each.removeprefix("--due=") for each in rest if each[:6] == "--due=")
                day = f" (due {parse_day(due, NOW.date()):%m-%d})" if due else ""
                return f"task: {rest[-1]}{day}"
            case ["tasks", verb, name]:
                return f"{'end' if verb == 'done' else verb} task {NAMES[name]}"
            case ["reminder", "snooze", name, flag, until]:
                known = self.reminders[name]
                moment = (
                    known.due(UTC) + parse_duration(until)
                    if flag == "--for"
                    else parse_moment(until, NOW)
                )
                return f"snooze {NAMES.get(name) or known.spec.message} until {moment:%m-%d %H:%M}"
            case ["routine", "edit", name, _, cron]:
                return f"change {self.engine.routines[name][0]} to {cron}"
            case ["routine", verb, name]:
                return f"{verb} {self.engine.routines[name][0]}"
            case [_, verb, name, *_]:
                return f"{verb} {NAMES.get(name, name)}"
        return " ".join(words)


def _shown(message: ChatMessage) -> str:
    labels = [each.label for each in message.card.buttons] if message.card else []
    return "\n".join([message.text, *labels])


def _reminder(reminder: Reminder) -> str:
    spec = reminder.spec
    moment = f"{reminder.due(UTC):%m-%d %H:%M}"
    signs = ["+dose" if spec.kind else "", f"+nag {_pause(str(spec.nag))}" if spec.nag else ""]
    signs.append("" if spec.plain else "+run")
    return " ".join([f"remind: {spec.message} @ {moment}", *filter(None, signs)])


def _wished(message: str, when: str) -> str:
    """The text and the fields that the command makes of the words."""
    wish = wish_from_words(message, JobKind.ROUTINE, {})
    signs = ["+dose" if wish.fields.get("kind") else "", "" if wish.fields.get("plain") else "+run"]
    nag = wish.fields.get("nag")
    signs.append(f"+nag {_pause(str(nag))}" if nag else "")
    return " ".join([f"{wish.text} @ {when}", *filter(None, signs)])


def _pause(nag: str) -> str:
    return nag.partition(" ")[0]


def _answer(item: DueItem) -> str:
    return ANSWERS.get(item.answer or Answer.DONE) or f"until {item.until:%m-%d %H:%M}"


def verdict_of(changes: Sequence[str], said: str, wanted: Sequence[str]) -> str:
    found = "; ".join(changes).casefold()
    for each in wanted:
        want = each.casefold()
        if want.startswith("ask:"):
            parts = want.removeprefix("ask:").strip().split(", ")
            if not changes and all(part in said.casefold() for part in parts):
                return "asked"
        elif want.startswith("list "):
            if not changes and want in lists_in(said):
                return "right"
        elif found == want or (want.endswith("+nag") and found.startswith(f"{want} ")):
            return "right"
    return "wrong"


def lists_in(said: str) -> set[str]:
    lines = set(said.splitlines())
    found = {name for name, head in LISTS.items() if head in lines}
    heads = {texts.REMINDERS: "list reminders", texts.ROUTINES: "list routines"}
    jobs = {name for head, name in heads.items() if head in lines}
    return found or ({"list all"} if len(jobs) == 2 else jobs)


@asynccontextmanager
async def a_day(cards: Sequence[str] = ()) -> AsyncIterator[Day]:
    clock = ManualClock(NOW)
    engine = OfflineEngine(clock)
    async with scene(engine, clock=clock) as at:
        for name, (message, due) in SET.items():
            spec = JobSpec(id=name, message=message, background=True, plain=True)
            at.stores.reminders.add(Reminder(spec, due))
        day = Day(at, engine)
        for card in cards:
            await day.show(card)
        day.look()
        yield day


async def result_of(name: str, cards: Sequence[str], turns: Sequence[Turn]) -> Result:
    """A dialogue is wrong where one of its turns is."""
    verdicts, found = [], []
    async with a_day(cards) as day:
        for text, wanted in turns:
            changes, said = await day.take(text)
            verdicts.append(verdict_of(changes, said, wanted) if wanted else "right")
            found.append(f"{text!r} -> {'; '.join(changes) or 'nothing changed'} | {said}")
            await day.at.clock.advance(timedelta(seconds=1).total_seconds())
    verdict = "wrong" if "wrong" in verdicts else verdicts[-1]
    return Result(name, verdict, "\n".join(found))
