"""The specs of slash commands: their names and arguments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ollim_bot.kernel.base.errors import WrongInput

Method = TypeVar("Method", bound=Callable[..., Awaitable[Any]])

# The beginning of a link, in the text of an answer, to the message with an id of the surface.
LINK = "message:"


@dataclass(frozen=True, slots=True)
class Argument:
    """`choices` are all or some of the valid values; `takes_rest` is for the last argument only."""

    name: str
    about: str
    choices: tuple[str, ...] = ()
    is_required: bool = False
    takes_rest: bool = False


@dataclass(frozen=True, slots=True)
class CommandSpec:
    name: str
    about: str
    arguments: tuple[Argument, ...] = ()

    @property
    def usage(self) -> str:
        """`/config [key] [value]`."""
        marks = (f"<{one.name}>" if one.is_required else f"[{one.name}]" for one in self.arguments)
        return " ".join([f"/{self.name}", *marks])

    def read(self, words: str) -> Mapping[str, str]:
        """The arguments of a typed line; raises `WrongInput`."""
        found: dict[str, str] = {}
        rest = words.strip()
        for argument in self.arguments:
            value, after = rest, ""
            if rest and not argument.takes_rest:
                value, after = [*rest.split(maxsplit=1), ""][:2]
            if value:
                found[argument.name] = value
            elif argument.is_required:
                raise WrongInput(f"`/{self.name}` needs more: write `{self.usage}`.")
            rest = after
        if rest:
            if not self.arguments:
                raise WrongInput(f"`/{self.name}` takes no words after it.")
            raise WrongInput(f"`/{self.name}` takes fewer words: write `{self.usage}`.")
        return found


@dataclass(frozen=True, slots=True)
class SlashCommand(CommandSpec):
    """A command that the method `run` of an object carries out; the menu is sorted by `place`.

    One that `is_queued` runs from the inbox, in order, and its answer goes into the conversation;
    any other runs when it is called, also during a turn, and its answer goes to the caller.
    `can_repeat` says whether a queued run that was cut off may start again from the beginning;
    the method `before` runs when it is called, to shorten its wait. The methods in `completions`
    propose values for an argument without fixed choices.
    """

    place: int = field(kw_only=True)
    run: str = field(default="", kw_only=True)
    is_queued: bool = field(default=False, kw_only=True)
    can_repeat: bool = field(default=False, kw_only=True)
    before: str = field(default="", kw_only=True)
    completions: Mapping[str, str] = field(default_factory=dict, kw_only=True)


def slash_command(
    place: int, name: str, about: str, *arguments: Argument, **more: Any
) -> Callable[[Method], Method]:
    """Declare the method below as a command of the chat; `more` are fields of `SlashCommand`."""

    def declare(method: Method) -> Method:
        run = method.__name__
        vars(method)["slash"] = SlashCommand(name, about, arguments, place=place, run=run, **more)
        return method

    return declare


def commands_of(*owners: type) -> list[SlashCommand]:
    """The commands that the classes declare, in the order of the menu."""
    methods = (method for owner in owners for method in vars(owner).values())
    found = (getattr(method, "slash", None) for method in methods)
    return sorted(filter(None, found), key=lambda command: command.place)


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """What the caller is shown; empty if the answer went into the conversation.

    `is_shown`: the card that was clicked says it already, so it is only spoken.
    """

    text: str = ""
    is_error: bool = False
    is_shown: bool = False
