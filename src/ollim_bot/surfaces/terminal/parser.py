"""Parses the arguments of a command."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, NoReturn

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.surfaces.terminal.completions import (
    Completion,
    CompletionAsked,
    Completions,
    WordAtCursor,
)
from ollim_bot.surfaces.terminal.printing import no_such, width_of, wrapped

if TYPE_CHECKING:
    from ollim_bot.surfaces.terminal.caller import Caller

# The metavar of a flag that takes one of a few words, and of one that takes a file.
_WORDS = re.compile(r"[a-z_-]+(?:\|[a-z_-]+)*")
_FILES = re.compile(r"\b(?:DIRECTORY|FILE|FOLDER|SOURCE)\b")


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line with an example.

    A flag that was not given is not in the result. The action `either` is for a flag with two
    names: the first sets True, the second False. A `usage` replaces the line that is made of the
    arguments. `text_flag` may be left out before a text that comes first.
    """

    def __init__(
        self,
        command: str,
        about: str,
        example: str,
        arguments: Iterable[tuple[Sequence[str], Mapping[str, Any]]],
        usage: str | None = None,
        text_flag: str | None = None,
    ) -> None:
        self._completions: dict[str, Completions] = {}
        super().__init__(
            command,
            usage=usage,
            description=about,
            epilog=f"example:\n  {example}",
            formatter_class=_formatter,
            argument_default=argparse.SUPPRESS,
            allow_abbrev=False,
        )
        self.register("action", "either", _Either)
        self._example = example
        self._text_flag = text_flag
        for names, reading in arguments:
            self.add_argument(*names, **reading)

    def add_argument(
        self, *names: str, completions: Completions | None = None, **reading: Any
    ) -> argparse.Action:
        action = super().add_argument(*names, **reading)
        if completions is not None:
            self._completions[action.dest] = completions
        return action

    def read(self, words: Sequence[str]) -> Mapping[str, Any]:
        if words and isinstance(words[-1], WordAtCursor):
            raise self._completion(words[:-1], words[-1])
        given, unknown = self.parse_known_args(_joined(self._with_text_flag(words)))
        if unknown:
            raise self._not_understood(unknown[0], words)
        return vars(given)

    def _completion(self, before: Sequence[str], current: str) -> CompletionAsked:
        waiting, given, used = self._read_so_far(before)
        flag, sign, _ = current.partition("=")
        if waiting is None and sign and flag in self._option_string_actions:
            return self._values(self._option_string_actions[flag], given, f"{flag}=")
        if waiting is None and not current.startswith("-"):
            actions = self._get_positional_actions()
            if len(given) < len(actions):
                waiting = actions[len(given)]
            elif actions and actions[-1].nargs in ("+", "*"):
                waiting = actions[-1]
        if waiting is not None:
            return self._values(waiting, given)
        return CompletionAsked(lambda _: self._unused_flags(used))

    def _read_so_far(
        self, words: Sequence[str]
    ) -> tuple[argparse.Action | None, list[str], set[argparse.Action]]:
        """The flag that waits for its value, the words that are no flag's, the flags used."""
        waiting: argparse.Action | None = None
        given: list[str] = []
        used: set[argparse.Action] = set()
        for word in words:
            action = self._option_string_actions.get(word.partition("=")[0])
            if waiting is not None:
                waiting = None
            elif action is not None:
                used.add(action)
                waiting = None if "=" in word or action.nargs == 0 else action
            else:
                given.append(word)
        return waiting, given, used

    def _values(
        self, action: argparse.Action, given: Sequence[str], head: str = ""
    ) -> CompletionAsked:
        find = partial(self._words_for, action, given, head)
        takes_files = _FILES.search(str(action.metavar)) is not None
        return CompletionAsked(find, takes_files=takes_files and not head)

    def _words_for(
        self, action: argparse.Action, given: Sequence[str], head: str, caller: Caller
    ) -> Iterator[Completion]:
        if action.dest in self._completions:
            for each in self._completions[action.dest](caller, given):
                yield each._replace(word=head + each.word)
        words = action.choices
        if words is None and _WORDS.fullmatch(str(action.metavar)):
            words = str(action.metavar).split("|")
        for word in words or ():
            yield Completion(f"{head}{word}")

    def _unused_flags(self, used: set[argparse.Action]) -> Iterator[Completion]:
        for action in self._actions:
            if action not in used or isinstance(action, argparse._AppendAction):
                for name in action.option_strings:
                    if name.startswith("--"):
                        yield Completion(name, action.help or "")

    def _with_text_flag(self, words: Sequence[str]) -> Sequence[str]:
        if self._text_flag is None or not words or words[0].startswith("-"):
            return words
        if any(re.fullmatch(r"(?s)-m.*|--message(?:=.*)?", word) for word in words):
            raise WrongInput(f"{self.prog}: {words[0]!r} stands beside -m. Give one text.")
        return [f"{self._text_flag}={words[0]}", *words[1:]]

    def format_help(self) -> str:
        width = width_of(sys.stdout)
        lines = super().format_help().splitlines()
        return "".join(f"{wrapped(line, width, '  ')}\n" for line in lines)

    def error(self, message: str) -> NoReturn:
        reason = message.removeprefix("argument ").removesuffix(".")
        raise WrongInput(f"{self.prog}: {reason}. Example: {self._example}")

    def _not_understood(self, word: str, words: Sequence[str]) -> WrongInput:
        sentence = f"{self.prog}: {word!r} is not understood."
        if not word.startswith("-"):
            needs = f"{sentence} A text of several words needs quotes"
            if self._text_flag is None and not words[0].startswith("-"):
                return WrongInput(f"{needs}.")
            # The words between two flags as one text.
            runs = groupby(words, lambda word: word.startswith("-"))
            texts = ([*run] if are_flags else [" ".join(run)] for are_flags, run in runs)
            line = shlex.join(text for run in texts for text in run)
            return WrongInput(f"{needs}: {self.prog} {line}")
        flags = re.findall(r"--[a-z-]+", self.format_help())
        return no_such(sentence, word.partition("=")[0], flags, f"{self.prog} --help")


def _joined(words: Sequence[str]) -> Sequence[str]:
    """Join a negative number to its flag, so that the flag's own check can refuse it."""
    joined: list[str] = []
    for word in words:
        if joined and re.match(r"-\d", word) and re.fullmatch(r"--[a-z-]+", joined[-1]):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


class _Either(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, **others: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **others)

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        _values: object,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, option_string == self.option_strings[0])


def _formatter(prog: str) -> argparse.HelpFormatter:
    # To find the width by itself, argparse imports modules even without printing help.
    try:
        width = os.get_terminal_size(1).columns
    except OSError:
        width = 80
    return argparse.RawDescriptionHelpFormatter(prog, width=min(width, 100) - 2)
