"""The specs of slash commands: their names and arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ollim_bot.errors import WrongInput

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
class CommandAnswer:
    """What the caller is shown; empty if the answer went into the conversation.

    `is_shown`: the card that was clicked says it already, so it is only spoken.
    """

    text: str = ""
    is_error: bool = False
    is_shown: bool = False
