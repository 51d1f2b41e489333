"""Which addresses of the web may be fetched: public ones only.

A name is judged by every address that it has at this moment, and the engine asks for them again
when it fetches. So a server of names that answers differently from one second to the next can still
lead it astray, as can a proxy, which asks for itself; only to whoever fetches is the last answer
known. What the engine follows of its own accord is a redirection on the same host.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from ollim_bot.tools import texts

Resolver = Callable[[str], Sequence[str]]

_FORM = re.compile(r"https?://[^/?#\\\s]+(?:[/?#][^\\]*)?", re.IGNORECASE)
_NETLOC = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\[\]:%]+))(?::\d{1,4}|:[1-6]\d{4})?"
)
# The older rule for names, which is Python's, makes other names of these than the engine's does.
_READ_IN_TWO_WAYS = re.compile("[\u00df\u1e9e\u03c2\u200c\u200d]")
_HOST = re.compile(r"[a-z0-9._-]+")
_OF_THE_NETWORK = (".localhost", ".local", ".internal", ".home.arpa", ".lan", ".home", ".intranet")
_PUBLIC_V6 = IPv6Network("2000::/3")
# Their addresses hold one of version 4, to which they lead.
_WRAPPED = (IPv6Network("2001::/32"), IPv6Network("2002::/16"))


_LONGEST_LOOK_UP = 5.0
_MOST_LOOK_UPS = 8
_PLACES_TO_LOOK_UP = threading.BoundedSemaphore(_MOST_LOOK_UPS)


class LookedUpLater(Exception):
    """A resolver raises it where an address is judged for the time being by how it is written."""


def look_up(host: str) -> Sequence[str]:
    """Every address of a name, by the system; raises `OSError` if there is none."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def resolve(
    host: str, limit: float = _LONGEST_LOOK_UP, resolver: Resolver = look_up
) -> Sequence[str]:
    """The same within `limit` seconds. Raises `TimeoutError` after them, or what it raises."""
    # The system's own look-up cannot be broken off: it is left behind, and there are a few at most.
    if not _PLACES_TO_LOOK_UP.acquire(timeout=limit):
        raise TimeoutError
    answers: list[Sequence[str] | OSError | ValueError] = []

    def ask() -> None:
        try:
            answers.append(resolver(host))
        except (OSError, ValueError) as refused:
            answers.append(refused)
        finally:
            _PLACES_TO_LOOK_UP.release()

    thread = threading.Thread(target=ask, name="look-up", daemon=True)
    thread.start()
    thread.join(limit)
    if not answers:
        raise TimeoutError
    if isinstance(answers[0], Exception):
        raise answers[0]
    return answers[0]


def address_problem(url: str, resolver: Resolver) -> str | None:
    """A reason not to fetch; a name that cannot be resolved is one."""
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
    except LookedUpLater:
        return None
    return None if is_public else texts.private_address(host)


def _plain_host(netloc: str) -> str:
    """As the one who fetches will read it; raises `ValueError` if that cannot be told."""
    form = _NETLOC.fullmatch(netloc)
    if form is None:
        raise ValueError(netloc)
    if form["six"]:
        return form["six"]
    if _READ_IN_TWO_WAYS.search(form["host"]):
        raise ValueError(netloc)
    plain = form["host"].encode("idna").decode("ascii").lower()
    if not _HOST.fullmatch(plain):
        raise ValueError(netloc)
    return plain.removesuffix(".")


def _is_public_host(host: str, resolver: Resolver) -> bool:
    """Raises `OSError` for a name without addresses."""
    address = _written_address(host)
    if address is not None:
        return _is_public(address)
    if "." not in host or host.endswith(_OF_THE_NETWORK):
        return False
    found = resolver(host)
    if not found:
        raise OSError(f"{host} has no address")
    return all(_is_public(ip_address(each.partition("%")[0])) for each in found)


def _written_address(host: str) -> IPv4Address | IPv6Address | None:
    """Also in the forms that few know: `127.1`, `0x7f000001`, `2130706433`, `0177.0.0.1`."""
    if ":" in host:
        return IPv6Address(host)
    try:
        return IPv4Address(socket.inet_aton(host))
    except OSError:
        return None


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast
    is_wrapped = any(address in network for network in _WRAPPED)
    return address in _PUBLIC_V6 and address.is_global and not is_wrapped
