"""What can be connected at Google, and the address that Google's consent page leads back to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import parse_qs, urlsplit

from ollim_bot.kernel.base.text import joined

_SCOPE = "https://www.googleapis.com/auth/"


class GoogleService(StrEnum):
    TASKS = "tasks"
    CALENDAR = "calendar"
    MAIL = "mail"


SCOPES: Mapping[GoogleService, tuple[str, ...]] = {
    GoogleService.TASKS: (f"{_SCOPE}tasks",),
    GoogleService.CALENDAR: (f"{_SCOPE}calendar.events", f"{_SCOPE}calendar.calendarlist.readonly"),
    GoogleService.MAIL: (f"{_SCOPE}gmail.readonly",),
}


def scopes_of(services: Iterable[GoogleService]) -> tuple[str, ...]:
    return tuple(scope for service in services for scope in SCOPES[service])


def services_in(scopes: Collection[str]) -> tuple[GoogleService, ...]:
    """The services that these scopes are enough for."""
    granted = set(scopes)
    return tuple(service for service, needed in SCOPES.items() if granted.issuperset(needed))


def in_words(services: Collection[GoogleService]) -> str:
    """`tasks, calendar and mail`."""
    return joined([service for service in GoogleService if service in services]) or "nothing"


@dataclass(frozen=True, slots=True)
class GoogleRedirect:
    """What Google's consent page answered: a code, or an `error` such as `access_denied`."""

    state: str
    code: str
    error: str

    def __repr__(self) -> str:
        return f"GoogleRedirect(error={self.error!r})"


def redirect_answer(address: str) -> GoogleRedirect | None:
    """What the redirect address says; None if it has no state, or neither a code nor an error."""
    try:
        fields = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    except ValueError:
        return None
    state, code, error = (fields.get(name, "") for name in ("state", "code", "error"))
    return GoogleRedirect(state, code, error) if state and (code or error) else None
