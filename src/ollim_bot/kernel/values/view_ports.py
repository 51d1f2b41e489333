"""The ports of the views beside the conversation: what the page shows of the day, and acts on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from ollim_bot.kernel.values.views import Preview, ViewAnswer

Shown_co = TypeVar("Shown_co", covariant=True)


class View(Protocol[Shown_co]):
    """A part of the program's state that the page shows."""

    async def look(self, asked: Mapping[str, str], /) -> Shown_co:
        """The state as it is now; `asked` are the words of the address.

        Raises `OllimError` where it cannot be read.
        """

    def changes(self) -> AsyncIterator[None]:
        """An item after each change of what it shows; several at once make one."""

    async def open_items(self) -> int | None:
        """How many things in it wait for an answer; None if it has no such things."""
        return None


@runtime_checkable
class ActingView(View[Shown_co], Protocol[Shown_co]):
    """A view whose lines can be acted on."""

    async def act(self, surface: str, action: str, fields: Mapping[str, str], /) -> ViewAnswer:
        """Does it. What is no longer there answers with a sentence, and nothing is done."""

    async def preview(self, action: str, fields: Mapping[str, str], /) -> Preview:  # noqa: ARG002
        """What the action would do with these fields; nothing is done."""
        return Preview()


# Each `View` by the name of its panel.
Views: TypeAlias = Mapping[str, Any]
