"""What the tools of one session use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from functools import partial
from pathlib import Path
from typing import Protocol

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.changes.breakdown_store import StepWriter
from ollim_bot.kernel.changes.item_answers import ItemAnswers
from ollim_bot.kernel.permissions.careful import Rule
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.values.cards import ButtonPrompt
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.pings import PingBudget, PingVerdict
from ollim_bot.kernel.values.ports import JobRepositories, Tool, ToolAnswer
from ollim_bot.kernel.values.runs import Intent, Run, RunKind

_PACKAGE = Path(__file__).resolve().parents[2]

# May be called more than once for one payment, and has no effect except its result.
Payment = Callable[[PingBudget], tuple[PingBudget, PingVerdict]]


class Arrival(StrEnum):
    SENT = "sent"
    ON_ITS_WAY = "on its way"


class Poster(Protocol):
    """Sends the messages of a run; none is lost and none is sent twice."""

    async def send(
        self,
        message: ChatMessage,
        run: Run,
        pay: Payment | None = None,
        prompts: Sequence[ButtonPrompt] = (),
        item: DueItem | None = None,
        *,
        waits_as: str | None = None,
    ) -> PingVerdict:
        """Send the message for `run`, so that a reply to it leads to the session of the run.

        The payment, the message, the prompts behind its buttons and the due item that it shows are
        one step; nothing is sent if `pay` refuses. While it is quiet, a ping that costs a token is
        kept for the digest, and so is every message with `waits_as`; of those with the same text
        there, only the newest comes. Raises `NotStored` if the disk is full.
        """

    async def arrival(self, message_id: MessageId) -> Arrival:
        """Wait a moment for the channels to confirm the message.

        Raises `DeliveryFailed` if all of them refuse it; the payment is then given back.
        """

    async def budget(self) -> PingBudget:
        """The ping budget as it was last charged."""


def docs_folder() -> Path:
    """The documentation: inside an installed package, beside the source in a checkout."""
    shipped = _PACKAGE / "docs"
    return shipped if shipped.is_dir() else _PACKAGE.parents[1] / "docs"


async def _without_effect(_: Intent) -> None:
    """Ignore the request: a background run has no conversation to change."""


@dataclass(slots=True)
class ToolContext:
    """`run` changes from turn to turn of one session; `root` is the data directory.

    `is_busy` says whether the owner is being answered now. `wants` stores durably what shall happen
    to the conversation after this turn. `items` answers due items and `steps` breaks things down,
    in the conversation only. `servers` gives the tools of the owner's servers as of now. `pinging`
    is held while a ping of the run is being paid for, so that two at once are not both the first.
    """

    run: Run
    store: Store
    repositories: JobRepositories
    clock: Clock
    root: Path
    poster: Poster
    is_busy: Callable[[], bool]
    wants: Callable[[Intent], Awaitable[None]] = _without_effect
    items: ItemAnswers | None = None
    steps: StepWriter | None = None
    servers: Callable[[], Mapping[str, Sequence[Tool]]] = dict
    docs: Path = field(default_factory=docs_folder)
    pinging: asyncio.Lock = field(default_factory=asyncio.Lock)


Schema = dict[str, object]
Arguments = Mapping[str, object]

EVERYWHERE = frozenset(RunKind)
MAIN = frozenset({RunKind.MAIN})
FORK = frozenset({RunKind.FORK})
BACKGROUND = frozenset({RunKind.BACKGROUND, RunKind.ISOLATED})


class BackgroundUse(Enum):
    """What lets a background run call a tool."""

    OWNERS_PATTERN = auto()
    DEFAULT_PATTERN = auto()
    NO_PATTERN = auto()


@dataclass(frozen=True, slots=True)
class EngineTool:
    """A tool of the engine. `main` and `background` are the patterns of the default policy.

    The policy may name a tool that the model is not offered. `careful` is as in `OwnTool`.
    """

    name: str
    main: tuple[str, ...]
    background: tuple[str, ...] = ()
    changes_something: bool = True
    is_offered: bool = True
    prompt_line: str = ""
    careful: Rule = field(kw_only=True)

    @property
    def full_name(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class OwnTool:
    """A tool of this program. A subagent may call it where its caller may.

    `schema` is checked before `run` is called. In a run of a kind that is not in `where`, the call
    is refused with the sentence `elsewhere`.
    `changes_something` says whether a call has effects that a second attempt would repeat.
    `careful` says what a call does in a session that has read text of others.
    `prompt_line` introduces the tool in the system prompt; empty if another line names it.
    """

    name: str
    description: str
    schema: Schema
    run: Callable[[ToolContext, Arguments], Awaitable[ToolAnswer]]
    where: frozenset[RunKind] = EVERYWHERE
    elsewhere: str = ""
    background: BackgroundUse = BackgroundUse.OWNERS_PATTERN
    changes_something: bool = True
    prompt_line: str = ""
    server: str = "discord"
    careful: Rule = field(kw_only=True)

    @property
    def full_name(self) -> str:
        return f"mcp__{self.server}__{self.name}"

    def bound_to(self, context: ToolContext) -> Tool:
        return Tool(self.name, self.description, self.schema, partial(self._call, context))

    async def _call(self, context: ToolContext, given: Arguments) -> ToolAnswer:
        if context.run.policy.kind not in self.where:
            return ToolAnswer(self.elsewhere, is_error=True)
        return await self.run(context, given)


def arguments(required: Sequence[str] = (), **properties: Schema) -> Schema:
    """The schema of a tool that takes these arguments and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def text(about: str) -> Schema:
    return {"type": "string", "description": about}


def choice(about: str, values: Sequence[str]) -> Schema:
    return {"type": "string", "description": about, "enum": list(values)}


def flag(about: str) -> Schema:
    return {"type": "boolean", "description": about}


def whole(about: str, low: int) -> Schema:
    return {"type": "integer", "description": about, "minimum": low}


def whole_of(value: object) -> int | None:
    """The value given for a `whole`; in JSON Schema, 3.0 is a whole number too."""
    return int(value) if isinstance(value, int | float) else None


def number(about: str) -> Schema:
    return {"type": "number", "description": about, "exclusiveMinimum": 0}


def listed(about: str, item: Mapping[str, object]) -> Schema:
    return {"type": "array", "description": about, "items": dict(item)}
