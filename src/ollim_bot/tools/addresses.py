"""Which addresses of the web may be fetched: those of nobody's own machine or network."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from ollim_bot.tools import texts

Resolver = Callable[[str], Sequence[str]]

_FORM = re.compile(r"https?://[^/?#\\\s]+(?:[/?#][^\\]*)?", re.IGNORECASE)
_NETLOC = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\[\]:%]+))(?::\d{1,4}|:[1-6]\d{4})?"
)
_HOST = re.compile(r"[a-z0-9._-]+")
_OF_THE_NETWORK = (".localhost", ".local", ".internal", ".home.arpa", ".lan", ".home", ".intranet")
_PUBLIC_V6 = IPv6Network("2000::/3")
# Their addresses hold one of version 4, to which they lead.
_WRAPPED = (IPv6Network("2001::/32"), IPv6Network("2002::/16"))


def resolve(host: str) -> Sequence[str]:
    """Every address of a name; raises `OSError` if there is none."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def address_problem(url: str, resolver: Resolver) -> str | None:
    """A reason not to fetch; None also for a name that nobody knows, since nothing is there."""
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
    return None if is_public else texts.private_address(host)


def _plain_host(netloc: str) -> str:
    """As the one who fetches will read it; raises `ValueError` if nobody can tell."""
    form = _NETLOC.fullmatch(netloc)
    if form is None:
        raise ValueError(netloc)
    if form["six"]:
        return form["six"]
    plain = form["host"].encode("idna").decode("ascii").lower()
    if not _HOST.fullmatch(plain):
        raise ValueError(netloc)
    return plain.removesuffix(".")


def _is_public_host(host: str, resolver: Resolver) -> bool:
    address = _written_address(host)
    if address is not None:
        return _is_public(address)
    if "." not in host or host.endswith(_OF_THE_NETWORK):
        return False
    try:
        found = resolver(host)
    except OSError:
        return True
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
