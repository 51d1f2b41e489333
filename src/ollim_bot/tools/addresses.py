"""Which web addresses may be fetched: public ones only.

A name is judged by every address that it has now, and the engine resolves it again when it fetches.
So a name server that changes its answers within seconds can still mislead it, as can a proxy, which
resolves names itself. The engine follows redirections only on the same host.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from ollim_bot.domain.ip_addresses import is_public, written_address
from ollim_bot.tools import texts

Resolver = Callable[[str], Sequence[str]]

_FORM = re.compile(r"https?://[^/?#\\\s]+(?:[/?#][^\\]*)?", re.IGNORECASE)
_NETLOC = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\[\]:%]+))(?::\d{1,4}|:[1-6]\d{4})?"
)
# Python's older rules for internationalised names convert these differently than the engine's.
_AMBIGUOUS = re.compile("[\u00df\u1e9e\u03c2\u200c\u200d]")
_HOST = re.compile(r"[a-z0-9._-]+")
_OF_THE_NETWORK = (".localhost", ".local", ".internal", ".home.arpa", ".lan", ".home", ".intranet")
_LONGEST_LOOKUP = 5.0
_MOST_LOOKUPS = 8
_LOOKUP_SLOTS = threading.BoundedSemaphore(_MOST_LOOKUPS)


class LookupDeferred(Exception):
    """Raised by a resolver to judge an address by its spelling only, for now."""


def look_up(host: str) -> Sequence[str]:
    """Every address of a name, by the system; raises `OSError` if there is none."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def resolve(
    host: str, limit: float = _LONGEST_LOOKUP, resolver: Resolver = look_up
) -> Sequence[str]:
    """Look up the name within `limit` seconds.

    Raises `TimeoutError` after them, and the errors of `resolver`.
    """
    # The system's lookup cannot be cancelled: the thread is abandoned, and their number is limited.
    if not _LOOKUP_SLOTS.acquire(timeout=limit):
        raise TimeoutError
    answers: list[Sequence[str] | OSError | ValueError] = []

    def ask() -> None:
        try:
            answers.append(resolver(host))
        except (OSError, ValueError) as refused:
            answers.append(refused)
        finally:
            _LOOKUP_SLOTS.release()

    thread = threading.Thread(target=ask, name="look-up", daemon=True)
    thread.start()
    thread.join(limit)
    if not answers:
        raise TimeoutError
    if isinstance(answers[0], Exception):
        raise answers[0]
    return answers[0]


def address_problem(url: str, resolver: Resolver) -> str | None:
    """A reason not to fetch, or None; an unresolvable name is a reason."""
    if not _FORM.fullmatch(url):
        return texts.NO_WEB_ADDRESS
    try:
        parts = urlsplit(url)
        if "@" in parts.netloc:
            return texts.NO_SIGN_IN
        host = _plain_host(parts.netloc)
        is_public = _is_public_host(host, resolver)
    except ValueError:
        return texts.NO_WEB_ADDRESS
    except OSError:
        return texts.unknown_address(host)
    except LookupDeferred:
        return None
    return None if is_public else texts.private_address(host)


def _plain_host(netloc: str) -> str:
    """The host as the engine will read it; raises `ValueError` if that is unclear."""
    form = _NETLOC.fullmatch(netloc)
    if form is None:
        raise ValueError(netloc)
    if form["six"]:
        return form["six"]
    if _AMBIGUOUS.search(form["host"]):
        raise ValueError(netloc)
    plain = form["host"].encode("idna").decode("ascii").lower()
    if not _HOST.fullmatch(plain):
        raise ValueError(netloc)
    return plain.removesuffix(".")


def _is_public_host(host: str, resolver: Resolver) -> bool:
    """Whether all addresses of the host are public. Raises `OSError` if it has none."""
    address = written_address(host)
    if address is not None:
        return is_public(address)
    if "." not in host or host.endswith(_OF_THE_NETWORK):
        return False
    found = resolver(host)
    if not found:
        raise OSError(f"{host} has no address")
    return all(map(is_public, found))
