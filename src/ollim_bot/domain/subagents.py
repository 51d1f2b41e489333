"""Subagents: what each is for, and what it may do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ollim_bot.domain.permissions import is_allowed
from ollim_bot.domain.tool_policy import Pattern

# The tools of the engine that start a subagent, and the argument that names it.
STARTING = frozenset({"Agent", "Task"})
NAME_ARGUMENT = "subagent_type"
# These guess what the owner wants. In the conversation, the owner can be asked.
_BACKGROUND_ONLY = frozenset({"user-proxy"})


@dataclass(frozen=True, slots=True)
class Subagent:
    """`tools` limits its calls; None leaves all that its caller may do.

    `model` is a name that the engine knows; empty for the model of the caller.
    """

    name: str
    description: str
    instructions: str
    model: str = ""
    tools: tuple[Pattern, ...] | None = None

    @property
    def is_for_background_only(self) -> bool:
        return self.name in _BACKGROUND_ONLY

    def pattern_for(
        self, tool: str, arguments: Mapping[str, object], *roots: str
    ) -> Pattern | None:
        """The pattern of its own that allows the call, if it has one."""
        allowing = (
            each for each in self.tools or () if is_allowed([each], tool, arguments, *roots)
        )
        return next(allowing, None)


@dataclass(frozen=True, slots=True)
class Subagents:
    """All subagents of a data directory, by name.

    `problems` are sentences about files that define none, `warnings` about fields without an
    effect. `hidden` are names that the engine would find in such files.
    """

    known: Mapping[str, Subagent] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()

    def names(self, *, in_background: bool) -> Iterator[str]:
        """The names of those that can be started."""
        every = self.known.values()
        return (one.name for one in every if in_background or not one.is_for_background_only)
