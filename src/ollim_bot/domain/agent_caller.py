"""Which `ollim-bot` commands the agent may run, directly or through another program."""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ollim_bot.domain.job_kinds import JobKind

# A variable of every program that the agent starts: `CONVERSATION`, or the id of the occurrence of
# its background run.
CALLED_BY = "OLLIM_CALLED_BY"
CONVERSATION = "conversation"

PROGRAM = "ollim-bot"

HELP_WORDS = frozenset({"help", "--help", "-h"})
_VERSION_WORDS = frozenset({"version", "--version"})

# A command that is not listed here is the owner's, so a new command is closed to the agent, but
# for that of a kind of job.
_OPEN = frozenset(
    {
        *(
            "cal",
            "changes",
            "completion",
            "cost",
            "doctor",
            "doses",
            "gmail",
            "help",
            "history",
            "receipt",
        ),
        *("rehearse", "runs", "tasks", "today", "version", *JobKind),
    }
)
_OPEN_VERBS = frozenset(
    {
        *(("config", verb) for verb in ("list", "get")),
        *(("skill", verb) for verb in ("list", "show", "check")),
        ("mcp", "list"),
    }
)
# Where another program runs ours, only these are certain to be meant as commands.
_OWNERS = frozenset(
    {
        *("about-me", "auth", "backup", "config", "forget", "google", "mcp", "messages", "push"),
        *("restore", "sentinel", "service", "setup", "skill", "standby", "undo", "update", "web"),
    }
)
_OWNERS_VERBS = frozenset(
    {
        *(("cal", verb) for verb in ("subscribe", "unsubscribe", "refresh")),
        ("webhook", "url"),
    }
)
_MENDING = "--fix"
# Writes a file of any name, past the rules for the paths that the agent may write.
_OUTPUT = "--output"
_EXPORTING = ("runs", "cost")
# Reads a file of any name, past the rules for the paths that the agent may read.
_DRAFT = "--with"


class CommandLine(NamedTuple):
    """The words after `ollim-bot`, split at what they run.

    The program dispatches by `noun` and `verb` and by nothing else, so a check of these two is a
    check of what will run. Without a noun the words start the bot. The noun `help` only prints. A
    word that begins with a dash is never a verb, nor is any word behind it; a noun that has verbs
    then lists.
    """

    noun: str
    verb: str
    rest: tuple[str, ...]


def read_command_line(words: Sequence[str]) -> CommandLine:
    noun, others = (words[0], words[1:]) if words else ("", ())
    if noun in HELP_WORDS:
        return CommandLine("help", "", tuple(others))
    if noun in _VERSION_WORDS:
        return CommandLine("version", "", tuple(others))
    verb, rest = split_verb(others)
    return CommandLine(noun, verb, rest)


def split_verb(words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The verb behind a noun, empty if there is none, and the words that it takes."""
    if words and words[0] and (not words[0].startswith("-") or words[0] in HELP_WORDS):
        return words[0], tuple(words[1:])
    return "", tuple(words)


def owners_command(command: CommandLine) -> str | None:
    """The command in words, if it is one that only the owner may run.

    Such a command changes permissions, shows a key, or starts or stops the bot.
    """
    noun, verb, rest = command
    if noun == "doctor" and any(word.startswith(_MENDING) for word in (verb, *rest)):
        return f"{PROGRAM} doctor {_MENDING}"
    if noun in _EXPORTING and any(word.startswith(_OUTPUT) for word in (verb, *rest)):
        return " ".join(filter(None, (PROGRAM, noun, verb, _OUTPUT)))
    if noun == "rehearse" and any(word.startswith(_DRAFT) for word in (verb, *rest)):
        return f"{PROGRAM} rehearse {_DRAFT}"
    if noun in _OPEN and (noun, verb) not in _OWNERS_VERBS:
        return None
    if (noun, verb) in _OPEN_VERBS:
        return None
    return " ".join(filter(None, (PROGRAM, noun, verb)))


def hidden_owners_command(words: Sequence[str]) -> str | None:
    """As `owners_command`, for `env ollim-bot config set …` and the like, where recognisable.

    `ollim-bot` itself refuses all of them when the agent is the caller.
    """
    for at, word in enumerate(words, 1):
        if posixpath.basename(word) == PROGRAM:
            command = read_command_line(words[at:])
            if command.noun in _OWNERS or command[:2] in _OWNERS_VERBS:
                return owners_command(command)
    return None


def owners_command_refusal(command: str) -> str:
    return f"`{command}` is for the owner alone. Ask them to do it in a terminal."


LONGEST_COMMAND = 100_000
MOST_WORDS = 200

# Outside quotes, only letters, digits, spaces and these are plain.
_PLAIN = frozenset("-_./:=@%+,")
_LIVE_IN_DOUBLE_QUOTES = frozenset("$`\\")


def shell_words(command: str) -> tuple[str, ...] | None:
    """The words of one simple command; None if it is, or may be, anything else.

    None for chains, substitutions, variables, redirections, assignments, escapes, comments, globs,
    braces, home directories, unclosed quotes, control characters, and anything beyond the limits.
    Each returned word means only itself, in any shell with any settings.
    """
    if len(command) > LONGEST_COMMAND:
        return None
    if any(unicodedata.category(char) == "Cc" and char != "\t" for char in command):
        return None
    words: list[str] = []
    place = 0
    while place < len(command):
        if command[place] in " \t":
            place += 1
            continue
        read = _word(command, place)
        if read is None or len(words) == MOST_WORDS:
            return None
        word, place = read
        words.append(word)
    return None if words and "=" in words[0] else tuple(words)


def quoted(words: Iterable[str]) -> str:
    """A command line that every shell reads as these words: each in single quotes.

    No shell expands, aliases or otherwise replaces a single-quoted word.
    """
    return " ".join("'" + word.replace("'", "'\"'\"'") + "'" for word in words)


def _word(command: str, place: int) -> tuple[str, int] | None:
    """The word that begins at `place`, and where it ends."""
    if command[place] == "=":
        return None
    parts: list[str] = []
    while place < len(command) and command[place] not in " \t":
        char = command[place]
        if char in "'\"":
            inside = _quoted(command, place)
            if inside is None:
                return None
            parts.append(inside)
            place += len(inside) + 2
            continue
        if not (char.isalnum() or char in _PLAIN):
            return None
        parts.append(char)
        place += 1
    return "".join(parts), place


def _quoted(command: str, place: int) -> str | None:
    """The text between the quote at `place` and the next; None if a shell would expand it."""
    mark = command[place]
    end = command.find(mark, place + 1)
    if end < 0:
        return None
    inside = command[place + 1 : end]
    is_live = mark == '"' and not _LIVE_IN_DOUBLE_QUOTES.isdisjoint(inside)
    return None if is_live else inside
