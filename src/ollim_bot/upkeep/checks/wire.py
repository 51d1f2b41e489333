"""One question over HTTP, as the checks ask it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

_LONGEST_WAIT = 5.0
_LONGEST_ANSWER = 1_000_000


class Answer(NamedTuple):
    """`said` is None where it was no JSON; `server` is what the other side calls itself."""

    status: int
    said: Any
    server: str = ""


Ask = Callable[[str, Mapping[str, str]], Answer]


def ask(url: str, headers: Mapping[str, str]) -> Answer:
    """Raises `ConnectionRefusedError` where nobody listens, else `OSError` if no answer comes.

    It goes straight there, as the bot does: through no proxy, and on to no other address.
    """
    parts = urlsplit(url)
    made = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    with closing(made(parts.hostname or "", parts.port, timeout=_LONGEST_WAIT)) as connection:
        try:
            connection.request("GET", parts.path, headers=dict(headers))
            response = connection.getresponse()
            body = response.read(_LONGEST_ANSWER)
        except HTTPException as unclear:
            raise OSError("the answer was not HTTP") from unclear
    return Answer(response.status, _json(body), response.getheader("Server", ""))


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None
