"""How a tool is declared: what the model sees of it, and what the default policy says about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial

from ollim_bot.domain.runs import RunKind
from ollim_bot.ports import Tool, ToolAnswer
from ollim_bot.tools.context import ToolContext

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

    The policy may name a tool that the model is not offered.
    """

    name: str
    main: tuple[str, ...]
    background: tuple[str, ...] = ()
    changes_something: bool = True
    is_offered: bool = True
    prompt_line: str = ""

    @property
    def full_name(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class OwnTool:
    """A tool of this program. A subagent may call it where its caller may.

    `schema` is checked before `run` is called. In a run of a kind that is not in `where`, the call
    is refused with the sentence `elsewhere`.
    `changes_something` says whether a call has effects that a second attempt would repeat.
    `if_tainted` says what a call would do that needs the owner's approval once the turn has read
    untrusted text; empty if it needs none.
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
    if_tainted: str = ""
    prompt_line: str = ""
    server: str = "discord"

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
