"""The slash commands that there are, and how a typed line is read."""

from __future__ import annotations

from collections.abc import Mapping

from ollim_bot.domain.commands import Argument, CommandSpec
from ollim_bot.domain.near_words import nearest
from ollim_bot.domain.runtime_config import CONFIG_KEYS, PermissionMode
from ollim_bot.errors import WrongInput

_MODELS = ("opus", "sonnet", "haiku", "default")
_THINKING = ("off", "adaptive", "4000")

COMMANDS: tuple[CommandSpec, ...] = (
    CommandSpec("clear", "Begin a new conversation; the old one can be resumed"),
    CommandSpec(
        "compact",
        "Make the conversation shorter, keeping what matters",
        (Argument("instructions", "what to keep, in your words", takes_rest=True),),
    ),
    CommandSpec("cost", "What today has cost, and how full the context is"),
    CommandSpec(
        "fork",
        "Branch off for a side topic, apart from the main conversation",
        (Argument("topic", "what it is about", takes_rest=True),),
    ),
    CommandSpec("interrupt", "Stop the answer that is being written"),
    CommandSpec(
        "model",
        "Which model answers",
        (Argument("name", "opus, sonnet, haiku, default, or a full model id", _MODELS),),
    ),
    CommandSpec(
        "thinking",
        "How much the model thinks before it answers",
        (Argument("mode", "off, adaptive, or a number of tokens", _THINKING),),
    ),
    CommandSpec(
        "permissions",
        "What happens to a call that nothing allows yet",
        (Argument("mode", "how it is decided, for now", tuple(PermissionMode)),),
    ),
    CommandSpec(
        "ping-budget",
        "How often the bot may speak up by itself",
        (
            Argument("capacity", "how many pings at most"),
            Argument("refill_rate", "minutes until one more"),
        ),
    ),
    CommandSpec("routines", "What comes again and again, with its next moment"),
    CommandSpec("reminders", "What comes once, with its moment"),
    CommandSpec("runs", "What ran by itself, and what came of it"),
    CommandSpec("sessions", "Earlier conversations"),
    CommandSpec(
        "resume",
        "Go back to an earlier conversation",
        (Argument("id", "its first letters, as /sessions shows them", is_required=True),),
    ),
    CommandSpec(
        "config",
        "Show or change a setting",
        (
            Argument("key", "which setting", tuple(CONFIG_KEYS)),
            Argument("value", "its new value", takes_rest=True),
        ),
    ),
    CommandSpec("setup", "A few questions, one at a time, so that the bot knows you"),
    CommandSpec("doctor", "Whether everything is as it should be, and what to do if not"),
    CommandSpec("version", "Which version this is"),
    CommandSpec("restart", "Stop the bot and start it again"),
)

_BY_NAME: Mapping[str, CommandSpec] = {spec.name: spec for spec in COMMANDS}


def read_line(line: str) -> tuple[CommandSpec, Mapping[str, str]]:
    """Raises `WrongInput` for a line that is not a right command."""
    name, _, rest = line.strip().removeprefix("/").partition(" ")
    spec = _BY_NAME.get(name.lower())
    if spec is None:
        raise _unknown(name)
    return spec, spec.read(rest)


def _unknown(name: str) -> WrongInput:
    meant = nearest(name.lower(), _BY_NAME)
    hint = f"Did you mean `/{meant}`?" if meant else "`/` shows all commands."
    return WrongInput(f"There is no command `/{name}`. {hint}")
