"""What the agent may do with the `ollim-bot` command, whichever way it calls it."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

# Set in the environment of every program that the agent starts: `CONVERSATION`, or the id of the
# occurrence whose background run it is.
CALLED_BY = "OLLIM_CALLED_BY"
CONVERSATION = "conversation"

PROGRAM = "ollim-bot"

# A command that is not listed here is the owner's: a new one is closed to the agent until it is.
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
# Those that are known to be the owner's: told from other words where another program runs ours.
_OWNERS = frozenset(
    {
        *("auth", "backup", "config", "google", "mcp", "messages", "restore", "sentinel"),
        *("service", "setup", "skill", "update", "web"),
    }
)
_OWNERS_VERBS = frozenset({("cal", "subscribe"), ("cal", "unsubscribe"), ("webhook", "url")})
_MENDING = "--fix"


def owners_command(words: Sequence[str]) -> str | None:
    """The command that only the owner may give, if these words behind `ollim-bot` are one.

    Such a command changes powers, shows a key, or starts and stops the bot itself.
    """
    if not words:
        return PROGRAM
    first, verb = words[0], words[1] if len(words) > 1 else ""
    if first == "doctor" and any(word.startswith(_MENDING) for word in words):
        return f"{PROGRAM} doctor {_MENDING}"
    if first in _OPEN and (first, verb) not in _OWNERS_VERBS:
        return None
    if (first, verb) in _OPEN_VERBS:
        return None
    return " ".join(filter(None, (PROGRAM, first, verb)))


def hidden_owners_command(words: Sequence[str]) -> str | None:
    """The same for `env ollim-bot config set …` and its like, where it can be told.

    `ollim-bot` itself refuses all of them: it knows that the agent has called it.
    """
    for at, word in enumerate(words[:-1], 1):
        if posixpath.basename(word) == PROGRAM and words[at] in _OWNERS:
            return owners_command(words[at : at + 2])
    return None


def for_the_owner_alone(command: str) -> str:
    return f"`{command}` is for the owner alone. Ask them to do it in a terminal."
