"""What a noun can be told to do: a table of verbs, of which only the one that is named is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.unknown_words import no_such
from ollim_bot.cli.wording import columns
from ollim_bot.errors import WrongInput

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
