"""What the parts of the local Google share: routes, calls, and errors in Google's form."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Any, Protocol

from aiohttp import web

Json = dict[str, Any]

_STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    410: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


class GoogleError(Exception):
    """An answer of an API that is not what was asked for; `reason` is such as `notFound`."""

    def __init__(
        self, status: int, reason: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.headers = dict(headers or {})

    def response(self) -> web.Response:
        detail = {"message": self.message, "domain": "global", "reason": self.reason}
        error = {
            "code": self.status,
            "message": self.message,
            "errors": [detail],
            "status": _STATUS_NAMES.get(self.status, "UNKNOWN"),
        }
        return web.json_response({"error": error}, status=self.status, headers=self.headers)


class OAuthError(Exception):
    """A refusal of the token endpoint; `error` is such as `invalid_grant`."""

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.error = error
        self.description = description
        self.status = status

    def response(self) -> web.Response:
        body = {"error": self.error, "error_description": self.description}
        return web.json_response(body, status=self.status)


def not_found(message: str = "Not Found") -> GoogleError:
    return GoogleError(404, "notFound", message)


def invalid(message: str) -> GoogleError:
    return GoogleError(400, "invalid", message)


def require_fields(body: Mapping[str, object], allowed: Collection[str], where: str = "") -> None:
    """Refuse a field that Google does not know, as its JSON parser does."""
    for name in body:
        if name not in allowed:
            place = f" at '{where}'" if where else ""
            raise invalid(
                f'Invalid JSON payload received. Unknown name "{name}"{place}: Cannot find field.'
            )


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A call that passed authorization. `parts` are the variables of the path."""

    account: str
    now: datetime
    parts: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Sequence[str]] = field(default_factory=dict)
    body: Json = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def param(self, name: str, otherwise: str = "") -> str:
        """The parameter's only value; given twice, it is refused."""
        values = self.params.get(name, ())
        if len(values) > 1:
            raise invalid(f"Invalid value for {name}: it is repeated.")
        return values[0] if values else otherwise


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """`path` is such as `/tasks/v1/lists/{list}/tasks`; any one of `scopes` is enough.

    `answer` returns JSON, or None for an answer without content. Only the named `params` may be
    given, and a body only where `has_body`.
    """

    method: str
    path: str
    scopes: tuple[str, ...]
    answer: Callable[[ApiCall], Json | None]
    params: frozenset[str] = frozenset()
    has_body: bool = False

    def match(self, path: str) -> Mapping[str, str] | None:
        """The variables of `path`, which is still percent-encoded; None if it is another path."""
        names = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.path)
        found = re.fullmatch(names, path)
        return found.groupdict() if found else None


class Api(Protocol):
    """One of the APIs that the server offers."""

    def routes(self) -> Sequence[ApiRoute]: ...


@dataclass(frozen=True, slots=True)
class Refusal:
    """The request is answered with this error and not carried out."""

    status: int
    reason: str = "backendError"
    retry_after: int | None = None

    def response(self) -> web.Response:
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        message = HTTPStatus(self.status).phrase
        return GoogleError(self.status, self.reason, message, headers).response()


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """The request is answered with these bytes and not carried out."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


def flag(call: ApiCall, name: str, *, otherwise: bool = False) -> bool:
    """The parameter, which is `true` or `false`."""
    value = call.param(name, "true" if otherwise else "false")
    if value not in ("true", "false"):
        raise invalid(f"Invalid value for {name}: {value}")
    return value == "true"


def page(call: ApiCall, items: Sequence[Json], usual: int, most: int, name: str = "items") -> Json:
    """One page of the items, with `nextPageToken` if more follow."""
    asked = call.param("maxResults", str(usual))
    if not asked.isdigit() or not 0 < int(asked) <= most:
        raise invalid(f"Invalid value for maxResults: {asked}")
    token = call.param("pageToken", "page-0")
    if not re.fullmatch(r"page-\d{1,6}", token):
        raise invalid("Invalid page token.")
    start = int(token.removeprefix("page-"))
    end = start + int(asked)
    answer: Json = {name: [dict(each) for each in items[start:end]]}
    if end < len(items):
        answer["nextPageToken"] = f"page-{end}"
    return answer
