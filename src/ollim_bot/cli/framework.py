"""What all commands share: arguments, output, and how a command is called."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ollim_bot.cli.unknown_words import no_such
from ollim_bot.domain.agent_caller import CALLED_BY, CONVERSATION
from ollim_bot.errors import WrongInput

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST_TITLE = 60


def plain(text: str) -> str:
    """`text` with nothing in it that a terminal would obey."""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in text)


def title(text: str) -> str:
    """One line of `text`, cut where it gets long, to stand inside a sentence."""
    line = plain(" ".join(text.split()))
    if len(line) > _LONGEST_TITLE:
        return f"{line[: _LONGEST_TITLE - 1].rstrip()}…"
    return line.rstrip(".,;: ") or line


def small(sentence: str) -> str:
    """A sentence as a part of another."""
    return sentence[:1].lower() + sentence[1:]


def columns(rows: Sequence[tuple[str, ...]]) -> str:
    """The rows as lines, each column as wide as its longest text, the last one free."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    )


def zone_of(moment: datetime) -> tzinfo:
    return moment.tzinfo or UTC


def is_past(moment: datetime, now: datetime) -> bool:
    # By the real time between: two moments of one zone would be compared by their wall clocks.
    return moment.timestamp() <= now.timestamp()


def later(moment: datetime, length: timedelta) -> datetime:
    """That much real time later, in the same zone: to the second, and never early."""
    return rounded_up((moment.astimezone(UTC) + length).astimezone(moment.tzinfo))


def rounded_up(moment: datetime) -> datetime:
    """The next whole second, unless it is one."""
    exact = moment.astimezone(UTC) + timedelta(seconds=1) - timedelta.resolution
    return exact.replace(microsecond=0).astimezone(moment.tzinfo)


_OTHER_WORDS = {
    "create": "add",
    "new": "add",
    "set": "add",
    "ls": "list",
    "get": "show",
    "change": "edit",
    "update": "edit",
    "delete": "cancel",
    "remove": "cancel",
    "rm": "cancel",
    "disable": "pause",
    "stop": "pause",
    "enable": "resume",
    "start": "resume",
    "later": "snooze",
    "reset": "unset",
}


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from ollim_bot.environment import Location
    from ollim_bot.settings import Settings


class Caller:
    """What is not given is that of this process. Nothing is looked up before it is needed."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._environ = os.environ if environ is None else environ
        self._cwd = cwd
        self._clock = clock

    @property
    def environ(self) -> Mapping[str, str]:
        return self._environ

    @property
    def agent(self) -> str | None:
        """Where the agent called from: `conversation`, or the id of the run; None for a person.

        A program below the running bot counts as called by the agent, whatever its environment
        says: the owner's own commands are not started by the bot.
        """
        named = self._environ.get(CALLED_BY)
        if named:
            return named
        return CONVERSATION if self._is_below_the_bot() else None

    def engine_environment(self) -> dict[str, str]:
        """Theirs, with the model provider that they set. Raises `BadSettings`."""
        return {**self._environ, **self.settings().engine_environment()}

    def place(self) -> Location:
        """Raises `BadSettings` if it cannot be told where the data lives."""
        from ollim_bot.environment import locate

        return locate(self._environ, self._folder())

    def settings(self) -> Settings:
        """Raises `BadSettings` with all problems at once."""
        from ollim_bot.settings import Settings

        return Settings.from_env(self._environ, cwd=self._folder())

    def now(self) -> datetime:
        from datetime import UTC, datetime

        return self._clock() if self._clock else datetime.now(UTC)

    def shown(self, path: Path) -> str:
        """A path as this person would type it, from `~` on where that is shorter."""
        home = self._environ.get("HOME", "").rstrip("/")
        text = str(path)
        return f"~{text.removeprefix(home)}" if home and text.startswith(f"{home}/") else text

    def _is_below_the_bot(self) -> bool:
        from ollim_bot.upkeep.instance import running_pid

        bot = running_pid(self.place().paths.bot_pid)
        return bot is not None and bot in _ancestors()

    def _folder(self) -> Path:
        from pathlib import Path

        return self._cwd or Path.cwd()


def _ancestors() -> Iterator[int]:
    """The processes above this one, nearest first; none where the system does not tell."""
    pid = os.getppid()
    while pid > 1:
        yield pid
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as status:
                # The name of the program stands in parentheses, and may have any in it.
                pid = int(status.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return


Given = Mapping[str, Any]


class Flags(Protocol):
    """What the words behind a verb may be, in the manner of `argparse`."""

    usage: str | None

    def add_argument(self, *names: str, **reading: Any) -> object: ...


def no_flags(_: Flags) -> None:
    """For a verb that takes no words."""


class Verb(NamedTuple):
    """`flags` says which words it takes. Unless it `needs_words`, it may be given none at all."""

    about: str
    example: str
    flags: Callable[[Flags], None]
    run: Callable[[Given, Caller], None]
    needs_words: bool = True


def run_verb(noun: str, verbs: Mapping[str, Verb], words: Sequence[str], caller: Caller) -> None:
    """Do what the words say to do with the noun."""
    if not words:
        raise WrongInput(f"Say what to do: ollim-bot {noun} {'|'.join(verbs)}.")
    word, *rest = words
    if word in ("--help", "-h", "help"):
        print(_overview(noun, verbs))
        return
    if word not in verbs:
        raise no_such(
            f"`ollim-bot {noun}` has no `{word}`.", word, verbs, f"ollim-bot {noun} --help"
        )
    verb = verbs[word]
    verb.run(_given(f"ollim-bot {noun} {word}", verb, rest), caller)


def _given(command: str, verb: Verb, words: Sequence[str]) -> Given:
    if not words and not verb.needs_words:
        return {}
    from ollim_bot.cli.parser import Parser

    parser = Parser(command, verb.about, verb.example)
    verb.flags(parser)
    return parser.read(words)


def _overview(noun: str, verbs: Mapping[str, Verb]) -> str:
    table = columns([(f"  {name}", verb.about) for name, verb in verbs.items()])
    examples = "\n".join(f"  {verb.example}" for verb in verbs.values())
    return (
        f"usage: ollim-bot {noun} VERB [...]\n\n{table}\n\nexamples:\n{examples}\n\n"
        f"`ollim-bot {noun} VERB --help` explains each one."
    )


def json_flag(parser: Flags) -> None:
    parser.add_argument("--json", action="store_true", help="answer in JSON, for programs")


def print_json(value: Mapping[str, object]) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2, default=_written))


def _written(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _joined(words: Sequence[str]) -> Sequence[str]:
    """A number below zero is a value, and whoever reads it can say what is wrong with it."""
    joined: list[str] = []
    for word in words:
        if joined and re.match(r"-\d", word) and re.fullmatch(r"--[a-z-]+", joined[-1]):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined
