"""Which provider the main session belongs to, and the sessions of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ollim_bot.domain.provider import ProviderKind
from ollim_bot.domain.sessions import SessionId


@dataclass(frozen=True, slots=True)
class ProviderMemory:
    """`current` owns the main session; `parked` has the sessions of the others, by kind.

    `is_untried` says that the real provider in use has not answered yet.
    """

    current: str | None = None
    parked: Mapping[str, SessionId] = field(default_factory=dict)
    is_untried: bool = False

    @property
    def last_used(self) -> str | None:
        """The provider that answered before; one that was only tried does not count."""
        if self.is_untried:
            return ProviderKind.OFFLINE
        return ProviderKind.CLAUDE if ProviderKind.CLAUDE in self.parked else self.current

    def answered(self) -> ProviderMemory:
        """Record the first answer of the provider in use."""
        return replace(self, is_untried=False)

    def moved_to(
        self, kind: str, session: SessionId | None
    ) -> tuple[ProviderMemory, SessionId | None]:
        """Switch to `kind`, and return the session to continue; `session` is the present one.

        The session of the previous provider is parked.
        """
        if self.current == kind:
            return self, session
        before = self.current or _presumed_owner(kind, session)
        is_new = kind == ProviderKind.CLAUDE and self.last_used != kind
        is_sure = self.current is not None or session is None
        is_untried = self.is_untried or (is_new and is_sure)
        if before == kind:
            return ProviderMemory(kind, self.parked, is_untried), session
        others = {name: one for name, one in self.parked.items() if name not in (before, kind)}
        parked = {**others, before: session} if session else others
        return ProviderMemory(kind, parked, is_untried), self.parked.get(kind)


def _presumed_owner(kind: str, session: SessionId | None) -> str:
    """The owner of a session whose provider is not known, as after a loss of the state.

    The built-in model must not continue a session that may belong to a real provider.
    """
    return ProviderKind.CLAUDE if session and kind == ProviderKind.OFFLINE else kind
