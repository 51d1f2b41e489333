"""Which `ollim-bot` commands the agent may run, directly or through another program."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

# A variable of every program that the agent starts: `CONVERSATION`, or the id of the occurrence of
# its background run.
CALLED_BY = "OLLIM_CALLED_BY"
CONVERSATION = "conversation"

PROGRAM = "ollim-bot"

# A command that is not listed here is the owner's, so a new command is closed to the agent.
_OPEN = frozenset(
    {
        *("cal", "completion", "doctor", "gmail", "help", "history", "rehearse", "reminder"),
        *("routine", "runs", "tasks", "today", "version", "webhook"),
        *("--help", "-h", "--version"),
    }
)
_OPEN_VERBS = frozenset(
    {
        *(("config", verb) for verb in ("list", "get")),
        *(("skill", verb) for verb in ("list", "show", "check")),
        ("mcp", "list"),
    }
)
# Words that mark an owner's command where another program runs ours.
_OWNERS = frozenset(
    {
        *("auth", "backup", "config", "google", "mcp", "messages", "restore", "sentinel"),
        *("service", "setup", "skill", "update", "web"),
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


def owners_command(words: Sequence[str]) -> str | None:
    """The command, if these words after `ollim-bot` are one that only the owner may run.

    Such a command changes permissions, shows a key, or starts or stops the bot.
    """
    if not words:
        return PROGRAM
    first, verb = words[0], words[1] if len(words) > 1 else ""
    if first == "doctor" and any(word.startswith(_MENDING) for word in words):
        return f"{PROGRAM} doctor {_MENDING}"
    if first == "runs" and any(word.startswith(_OUTPUT) for word in words):
        return f"{PROGRAM} runs {verb} {_OUTPUT}"
    if first in _OPEN and (first, verb) not in _OWNERS_VERBS:
        return None
    if (first, verb) in _OPEN_VERBS:
        return None
    return " ".join(filter(None, (PROGRAM, first, verb)))


def hidden_owners_command(words: Sequence[str]) -> str | None:
    """As `owners_command`, for `env ollim-bot config set …` and the like, where recognisable.

    `ollim-bot` itself refuses all of them when the agent is the caller.
    """
    for at, word in enumerate(words[:-1], 1):
        if posixpath.basename(word) == PROGRAM and words[at] in _OWNERS:
            return owners_command(words[at : at + 2])
    return None


def owners_command_refusal(command: str) -> str:
    return f"`{command}` is for the owner alone. Ask them to do it in a terminal."
