"""What all commands share: text output and verbs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ollim_bot.cli.completions import Completion, CompletionAsked, WordAtCursor
from ollim_bot.cli.terminal import show, width_of, wrapped
from ollim_bot.cli.unknown_words import no_such
from ollim_bot.domain.agent_caller import HELP_WORDS, split_verb
from ollim_bot.errors import WrongInput

if TYPE_CHECKING:
    from ollim_bot.cli.caller import Caller
    from ollim_bot.cli.completions import Completions

Given = Mapping[str, Any]

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


def later(moment: datetime, length: timedelta) -> datetime:
    """The moment `length` of real time later, in the same zone, rounded up to the second."""
    return rounded_up((moment.astimezone(UTC) + length).astimezone(moment.tzinfo))


def rounded_up(moment: datetime) -> datetime:
    """The moment itself if it is a whole second, else the next whole second."""
    exact = moment.astimezone(UTC) + timedelta(seconds=1) - timedelta.resolution
    return exact.replace(microsecond=0).astimezone(moment.tzinfo)


class Flags(Protocol):
    """Declares the arguments of a verb, in the manner of `argparse`.

    `completions` completes the argument in a shell.
    """

    usage: str | None
    text_flag: str | None

    def add_argument(
        self, *names: str, completions: Completions | None = None, **reading: Any
    ) -> object: ...


def no_flags(_: Flags) -> None:
    """For a verb without arguments."""


class Verb(NamedTuple):
    """`flags` declares its arguments. Unless it `needs_words`, it may be called with none."""

    about: str
    example: str
    flags: Callable[[Flags], None]
    run: Callable[[Given, Caller], None]
    needs_words: bool = True


def run_verb(noun: str, verbs: Mapping[str, Verb], words: Sequence[str], caller: Caller) -> None:
    """Run the verb that the words name. Without a verb, a noun that can list lists."""
    word, rest = split_verb(words)
    if not (words or "list" in verbs):
        raise WrongInput(f"Say what to do: ollim-bot {noun} {'|'.join(verbs)}.")
    if words and isinstance(words[0], WordAtCursor) and (word or not words[0]):
        raise CompletionAsked(
            lambda _: (Completion(name, verb.about) for name, verb in verbs.items())
        )
    if not word:
        word = "list" if "list" in verbs else words[0]
    if word in HELP_WORDS:
        show(_overview(noun, verbs))
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
