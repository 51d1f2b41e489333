"""Chooses the model: the one in the settings, else Claude's login, else the built-in one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from urllib.parse import urlsplit

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.values.usage import Price

NOT_SIGNED_IN = "Not signed in. Run `ollim-bot auth login`."

# In the order in which the engine prefers them.
_KEYS = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY")
_NAMES_ONE = (*_KEYS, "ANTHROPIC_BASE_URL")

_LOOPBACK = dict.fromkeys(("127.0.0.1", "localhost", "::1"), "The model server on this machine")

# At this address, the costs that the engine reports are the costs that are paid.
_CLAUDES_HOST = "api.anthropic.com"
# In the names of the models whose prices are listed.
_CLAUDES_MODELS = "claude-"


class ProviderKind(StrEnum):
    OFFLINE = "offline"
    CLAUDE = "claude"


class ModelAccess(StrEnum):
    """How the model is reached, which decides what can be wrong with it."""

    BUILT_IN = "built in"
    LOGIN = "login"
    KEY = "key"
    OWN_SERVER = "own server"


@dataclass(frozen=True, slots=True)
class Provider:
    """`name` is for the owner to read; `problem` says what is missing, if anything is.

    `key_name` is the setting that has the key, if there is one.
    """

    kind: ProviderKind
    name: str
    problem: str = ""
    access: ModelAccess = ModelAccess.LOGIN
    key_name: str = ""
    is_subscription: bool = False

    @property
    def who_answers(self) -> str:
        """A sentence for the terminal."""
        if self.problem:
            return f"No model answers. {self.problem}"
        if self.is_offline:
            return "The built-in offline model answers. `ollim-bot setup` connects Claude."
        return f"{self.name} answers."

    @property
    def is_offline(self) -> bool:
        return self.kind is ProviderKind.OFFLINE

    @property
    def price(self) -> Price:
        usual = Price.INCLUDED if self.is_subscription else Price.LISTED
        return _PRICES.get(self.access, usual)

    def price_of(self, models: Collection[str]) -> Price:
        """The price of what these models said.

        A server of one's own that passes questions on to Claude has Claude's prices.
        """
        is_claude = bool(models) and all(_CLAUDES_MODELS in each.lower() for each in models)
        is_known = self.price is Price.UNKNOWN and is_claude
        return Price.LISTED if is_known else self.price


_PRICES: Mapping[ModelAccess, Price] = {
    ModelAccess.BUILT_IN: Price.FREE,
    ModelAccess.OWN_SERVER: Price.UNKNOWN,
}

OFFLINE = Provider(ProviderKind.OFFLINE, "offline model", access=ModelAccess.BUILT_IN)
CLAUDE = Provider(ProviderKind.CLAUDE, "Claude")
NO_LOGIN = Provider(
    ProviderKind.CLAUDE,
    "Claude (not signed in)",
    "Claude is not signed in any more. Run `ollim-bot auth login`, then `ollim-bot` again.",
)


def names_provider(anthropic: Mapping[str, str]) -> bool:
    """Whether the settings name the provider, so that no login is looked for."""
    return any(anthropic.get(name) for name in _NAMES_ONE)


def choose_provider(
    anthropic: Mapping[str, str],
    *,
    wants_offline: bool,
    is_logged_in: bool,
    last_used: str | None,
    is_subscription: bool = False,
) -> Provider:
    """The provider to use; `last_used` is the one that answered last in this data directory.

    `is_subscription`: the login is one of an account that pays by the month.

    After an answer of a real model, only the owner's setting makes the built-in one replace it.
    """
    if wants_offline:
        return OFFLINE
    key_name = next((name for name in _KEYS if anthropic.get(name)), "")
    base = anthropic.get("ANTHROPIC_BASE_URL", "")
    host = urlsplit(base).hostname or base
    if host not in ("", _CLAUDES_HOST):
        name = _LOOPBACK.get(host, host)
        return Provider(ProviderKind.CLAUDE, name, access=ModelAccess.OWN_SERVER, key_name=key_name)
    if names_provider(anthropic):
        return Provider(
            ProviderKind.CLAUDE, "Claude (API key)", access=ModelAccess.KEY, key_name=key_name
        )
    if is_logged_in:
        return replace(CLAUDE, is_subscription=is_subscription)
    return OFFLINE if last_used in (None, ProviderKind.OFFLINE) else NO_LOGIN


@dataclass(frozen=True, slots=True)
class LoginStatus:
    """`method` is the program's own word. Only a turn shows whether the login is still valid."""

    is_logged_in: bool
    method: str = "none"
    account: str | None = None
    plan: str | None = None
    key_source: str | None = None

    @property
    def is_subscription(self) -> bool:
        """Whether the account pays by the month, and not for each request."""
        return self.is_logged_in and (self.method == "claude.ai" or self.plan is not None)

    @property
    def sentence(self) -> str:
        return f"Signed in to Claude with {self._with}." if self.is_logged_in else NOT_SIGNED_IN

    @property
    def _with(self) -> str:
        match self.method:
            case "claude.ai":
                owner = f"the account {self.account}" if self.account else "a Claude account"
                return f"{owner} ({self.plan})" if self.plan else owner
            case "api_key" if self.account:
                return f"the account {self.account}"
            case "api_key" if self.key_source and self.key_source.isupper():
                return f"the API key in {self.key_source}"
            case "api_key":
                return "an API key"
            case "oauth_token":
                return "a token"
            case other:
                return other


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
        # The owner of a session whose provider is not known, as after a loss of the state. The
        # built-in model must not continue a session that may belong to a real provider.
        before = self.current or (
            ProviderKind.CLAUDE if session and kind == ProviderKind.OFFLINE else kind
        )
        is_new = kind == ProviderKind.CLAUDE and self.last_used != kind
        is_sure = self.current is not None or session is None
        is_untried = self.is_untried or (is_new and is_sure)
        if before == kind:
            return ProviderMemory(kind, self.parked, is_untried), session
        others = {name: one for name, one in self.parked.items() if name not in (before, kind)}
        parked = {**others, before: session} if session else others
        return ProviderMemory(kind, parked, is_untried), self.parked.get(kind)
