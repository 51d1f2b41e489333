"""What all commands share: text output, arguments and verbs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ollim_bot.kernel.base.errors import BadPhrase, OllimError, WrongInput
from ollim_bot.kernel.values.agent_caller import HELP_WORDS, split_verb
from ollim_bot.surfaces.terminal.completions import Completion, CompletionAsked, WordAtCursor
from ollim_bot.surfaces.terminal.printing import no_such, show, width_of, wrapped

if TYPE_CHECKING:
    from ollim_bot.surfaces.terminal.caller import Caller

Given = Mapping[str, Any]
T = TypeVar("T")

_LONGEST_TITLE = 60
_NARROWEST_COLUMN = 30


def plain(text: str) -> str:
    """`text` without control characters that a terminal would obey."""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in text)


def title(text: str) -> str:
    """One line of `text`, shortened, to stand inside a sentence."""
    line = plain(" ".join(text.split()))
    if len(line) > _LONGEST_TITLE:
        return f"{line[: _LONGEST_TITLE - 1].rstrip()}…"
    return line.rstrip(".,;: ") or line


def small(sentence: str) -> str:
    """The sentence with a small first letter, as a part of another."""
    return sentence[:1].lower() + sentence[1:]


def columns(rows: Sequence[tuple[str, ...]]) -> str:
    """The rows as lines, with aligned columns; the last column is not padded.

    In a terminal a long last column is continued below itself. If the others leave it no room, it
    begins on a line of its own.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    width, indent = width_of(sys.stdout), " " * sum(each + 2 for each in widths)
    has_room = width is None or len(indent) + _NARROWEST_COLUMN <= width
    lines: list[str] = []
    for row in rows:
        head = "  ".join(cell.ljust(each) for cell, each in zip(row, widths, strict=False))
        if has_room or len(head) + 2 + len(row[-1]) <= (width or 0):
            lines.append(wrapped("  ".join(filter(None, [head, row[-1]])), width, indent))
        else:
            below = " " * (widths[0] + 2)
            lines += [wrapped(head.rstrip(), width, below), wrapped(below + row[-1], width, below)]
    return "\n".join(lines)


def zone_of(moment: datetime) -> tzinfo:
    return moment.tzinfo or UTC


def is_past(moment: datetime, now: datetime) -> bool:
    # By timestamp: Python compares two moments of one zone by their wall clocks.
    return moment.timestamp() <= now.timestamp()


def number_given(given: Given, name: str, usual: int, most: int) -> int:
    """The number of a flag, from 1 to `most`; the usual one without the flag."""
    text = str(given.get(name, usual))
    if not text.isdecimal() or not 0 < int(text) <= most:
        raise WrongInput(f"--{name}: {text!r} is not right. It takes a number from 1 to {most}.")
    return int(text)


def past_moment(given: Given, flag: str, now: datetime) -> datetime | None:
    """The moment that a flag names, by a date or by how long ago it is; None without the flag."""
    if flag not in given:
        return None
    from ollim_bot.kernel.values.phrases.durations import parse_duration

    text = str(given[flag])
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo)).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    try:
        return now.astimezone(UTC) - parse_duration(text)
    except BadPhrase:
        raise WrongInput(
            f"--{flag}: {text!r} is not right. It takes a date such as 2026-11-01, or a length of "
            "time such as 30d."
        ) from None


def only_one(found: Collection[T], what: str, word: str, overview: str) -> T:
    """The only one that was found by the beginning of its id. Raises `OllimError`."""
    if len(found) != 1:
        sentence = f"Several {what}s begin with" if found else f"There is no {what}"
        raise OllimError(plain(f"{sentence} {word}. {overview}"))
    return next(iter(found))


def fenced_for(agent: str | None, text: str, source: str, about: str) -> str:
    """The text; for the agent, it is marked as data that others wrote."""
    if agent is None:
        return text
    from ollim_bot.kernel.prompts.prompt_context import fenced
    from ollim_bot.kernel.values.taint import Untrusted

    return fenced(text, Untrusted(source, about))


class ArgumentSpec(NamedTuple):
    """An argument of a command: its names, and how `argparse` reads it.

    `completions` in `reading` completes it in a shell.
    """

    names: tuple[str, ...]
    reading: Mapping[str, Any]

    @property
    def is_needed(self) -> bool:
        if self.names[0].startswith("-"):
            return bool(self.reading.get("required"))
        return self.reading.get("nargs") not in ("?", "*")


def argument(*names: str, **reading: Any) -> ArgumentSpec:
    return ArgumentSpec(names, reading)


JSON = argument("--json", action="store_true", help="answer in JSON, for programs")


class Syntax(NamedTuple):
    """How a command is called. `usage` and `text_flag` are as in `Parser`."""

    command: str
    about: str
    example: str
    arguments: Sequence[ArgumentSpec]
    usage: str | None = None
    text_flag: str | None = None

    def read(self, words: Sequence[str]) -> Given:
        if not words and not any(each.is_needed for each in self.arguments):
            return {}
        from ollim_bot.surfaces.terminal.parser import Parser

        return Parser(*self).read(words)


CommandFunction = Callable[[Given, "Caller"], None]
F = TypeVar("F", bound=CommandFunction)


def command(
    name: str, about: str, example: str, *arguments: ArgumentSpec
) -> Callable[[CommandFunction], Callable[[Sequence[str], Caller], None]]:
    """Declares a command without verbs at its function; `example` are the words after its name."""
    syntax = Syntax(f"ollim-bot {name}", about, f"ollim-bot {name} {example}".rstrip(), arguments)
    return lambda run: lambda words, caller: run(syntax.read(words), caller)


class Verb(NamedTuple):
    syntax: Syntax
    run: CommandFunction


class Noun:
    """A command with verbs, each declared at its function; help lists them in that order."""

    def __init__(self, name: str) -> None:
        self._command = f"ollim-bot {name}"
        self._verbs: dict[str, Verb] = {}

    def verb(
        self,
        about: str,
        example: str,
        *arguments: ArgumentSpec,
        name: str = "",
        usage: str | None = None,
        text_flag: str | None = None,
    ) -> Callable[[F], F]:
        """Named after its function, unless it has a `name`; `example` are the words after it."""

        def declare(run: F) -> F:
            word = name or run.__name__.strip("_")
            command = f"{self._command} {word}"
            example_line = f"{command} {example}".rstrip()
            syntax = Syntax(command, about, example_line, arguments, usage, text_flag)
            self._verbs[word] = Verb(syntax, run)
            return run

        return declare

    def example(self, verb: str) -> str:
        return self._verbs[verb].syntax.example

    def run(self, words: Sequence[str], caller: Caller) -> None:
        """Run the verb that the words name. Without a verb, a noun that can list lists."""
        word, rest = split_verb(words)
        if not (words or "list" in self._verbs):
            raise WrongInput(f"Say what to do: {self._command} {'|'.join(self._verbs)}.")
        if words and isinstance(words[0], WordAtCursor) and (word or not words[0]):
            raise CompletionAsked(
                lambda _: (
                    Completion(name, verb.syntax.about) for name, verb in self._verbs.items()
                )
            )
        if not word:
            word = "list" if "list" in self._verbs else words[0]
        if word in HELP_WORDS:
            show(self._overview())
            return
        if word not in self._verbs:
            sentence = f"`{self._command}` has no `{word}`."
            raise no_such(sentence, word, self._verbs, f"{self._command} --help")
        verb = self._verbs[word]
        verb.run(verb.syntax.read(rest), caller)

    def _overview(self) -> str:
        table = columns([(f"  {name}", verb.syntax.about) for name, verb in self._verbs.items()])
        examples = "\n".join(f"  {verb.syntax.example}" for verb in self._verbs.values())
        return (
            f"usage: {self._command} VERB [...]\n\n{table}\n\nexamples:\n{examples}\n\n"
            f"`{self._command} VERB --help` explains each one."
        )


def print_json(value: Mapping[str, object]) -> None:
    import json

    print(shown_json(json.dumps(value, ensure_ascii=False, indent=2, default=_written)))


def shown_json(text: str) -> str:
    """The same JSON, with escapes for what a terminal would obey and for marks that hide text."""
    return "\n".join(
        line if line.isprintable() else "".join(map(_escaped, line)) for line in text.split("\n")
    )


def _escaped(sign: str) -> str:
    if sign.isprintable():
        return sign
    import json

    return json.dumps(sign)[1:-1] if sign != "\x7f" else "\\u007f"


def _written(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
