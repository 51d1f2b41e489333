"""Which addresses are public, and which lead to this machine or its network."""

from __future__ import annotations

import re
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from unicodedata import category, normalize
from urllib.parse import SplitResult, parse_qs, urlsplit

from ollim_bot.kernel.values.taint import Untrusted

IpAddress = IPv4Address | IPv6Address

_PUBLIC_V6 = IPv6Network("2000::/3")
# Addresses here contain that of two hosts; no page is served there.
_TEREDO = IPv6Network("2001::/32")
# Reserved, though not every version of Python knows.
_RESERVED_V4 = IPv4Network("192.0.0.0/24")
_RESERVED_V6 = IPv6Network("3fff::/20")
# Addresses in these networks lead to the IPv4 address that is in them, so many bits from the end.
_EMBEDDING = (
    (IPv6Network("::ffff:0:0/96"), 0),
    (IPv6Network("64:ff9b::/96"), 0),
    (IPv6Network("2002::/16"), 80),
)
# The middle of an address that tunnels through a network to the IPv4 address at its end.
_ISATAP = (0x00005EFE, 0x02005EFE)


def written_address(host: str) -> IpAddress | None:
    """The address that the host spells out, also in rare forms: `127.1`, `0x7f000001`, `127。1`.

    Raises `ValueError` for a wrong one.
    """
    if ":" in host:
        return IPv6Address(host)
    plain = normalize("NFKC", host).replace("\u3002", ".").rstrip(".")
    try:
        return IPv4Address(socket.inet_aton(plain)) if plain.isascii() else None
    except OSError:
        return None


def is_public(address: str | IpAddress) -> bool:
    """Whether it leads out of this machine and its network. Raises `ValueError` for no address."""
    if isinstance(address, str):
        address = ip_address(address.partition("%")[0])
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast and address not in _RESERVED_V4
    for network, bits in _EMBEDDING:
        if address in network:
            return is_public(IPv4Address((int(address) >> bits) & 0xFFFFFFFF))
    is_usual = address in _PUBLIC_V6 and address.is_global
    is_reserved = address in _TEREDO or address in _RESERVED_V6
    tunnelled = IPv4Address(int(address) & 0xFFFFFFFF)
    is_tunnel = (int(address) >> 32) & 0xFFFFFFFF in _ISATAP
    return is_usual and not is_reserved and not (is_tunnel and not is_public(tunnelled))


def is_loopback(host: str) -> bool:
    """Whether the host is `localhost`, or written as an address of this machine itself."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host.lower() == "localhost"
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


# What people and programs put around an address.
_AROUND = "<>`'\"“”‘’|*()[],;"
_LONGEST = 20_000
# The beginnings of the paths of private calendar addresses that need not end in `.ics`.
_CALENDAR_PATHS: Mapping[str, str] = {
    "calendar.google.com": "/calendar/ical/",
    "icloud.com": "/published/",
    "outlook.live.com": "/owa/calendar/",
    "outlook.office365.com": "/owa/calendar/",
    "outlook.office.com": "/owa/calendar/",
}
# Addresses that are secret by their form, among other words. A plain `.ics` may be public. The
# repetitions are bounded, so that the time grows with the length of the text only.
_PRIVATE = re.compile(
    r"(?i:webcals?://[^\s<>\"'`|]+"
    r"|(?:https?://)?(?:calendar\.google\.com/calendar/ical/[^\s<>\"'`|]{,300}/private-"
    r"|[\w.-]{1,60}\.icloud\.com/published/"
    r"|outlook\.(?:live|office365|office)\.com/owa/calendar/)[^\s<>\"'`|]+)"
)
_HINTS = ("webcal", "/private-", "/published/", "/owa/calendar/")
_HIDDEN_AMONG_WORDS = "(calendar address hidden)"
_LOOPBACK_WITHOUT_SCHEME = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\]):\d+/?\?", re.IGNORECASE)


class AddressKind(StrEnum):
    """The value is how the log names the message."""

    CALENDAR = "calendar address"
    GOOGLE_REDIRECT = "Google sign-in address"


@dataclass(frozen=True, slots=True)
class PastedAddresses:
    """`addresses` are secret: they are never logged, stored in the log, or shown to the agent."""

    kind: AddressKind
    addresses: tuple[str, ...]

    @property
    def shown_as(self) -> str:
        return f"{self.kind} (hidden)"


@dataclass(frozen=True, slots=True)
class AddressAnswer:
    """What the program says about an address, without the address.

    `update` tells the agent; empty if there is nothing to know. `untrusted` is set if `words` quote
    a text that others wrote.
    """

    words: str
    update: str = ""
    untrusted: Untrusted | None = None


# Uses one address; the same address may come again after a crash. Never raises `OllimError`.
TakeAddress = Callable[[str], Awaitable[AddressAnswer]]


def pasted_addresses(text: str) -> PastedAddresses | None:
    """The secret addresses, if the text is nothing else; None for any other text."""
    if len(text) > _LONGEST or not any(sign in text for sign in "/="):
        return None
    bare = "".join(sign for sign in text if sign.isspace() or category(sign) not in ("Cf", "Cc"))
    words = [*filter(None, (word.strip(_AROUND).rstrip(".") for word in bare.split()))]
    if not words:
        return None
    for kind, recognised in _KINDS.items():
        found = [recognised(word) for word in words]
        if all(found):
            return PastedAddresses(kind, tuple(dict.fromkeys(filter(None, found))))
    return None


def without_secrets(text: str) -> str:
    """The text with each private address of a calendar hidden."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return text
    return _PRIVATE.sub(_HIDDEN_AMONG_WORDS, text)


def _calendar(word: str) -> str | None:
    """The address with its scheme; None for anything but the address of a calendar."""
    parts = _split(word if "://" in word else f"https://{word}")
    if parts is None:
        return None
    is_calendar_link = parts.scheme in ("webcal", "webcals")
    is_web, host = parts.scheme in ("https", "http"), (parts.hostname or "").casefold()
    is_known = is_web and any(
        (host == known or host.endswith(f".{known}")) and parts.path.startswith(path)
        for known, path in _CALENDAR_PATHS.items()
    )
    if "://" not in word:
        return f"https://{word}" if is_known else None
    is_file = is_web and parts.path.casefold().endswith(".ics")
    return word if is_calendar_link or is_known or is_file else None


def _google_redirect(word: str) -> str | None:
    """The address to which Google's consent page leads back, on this machine."""
    address = f"http://{word}" if _LOOPBACK_WITHOUT_SCHEME.match(word) else word
    parts = _split(address)
    if parts is None or parts.scheme != "http" or parts.path not in ("", "/"):
        return None
    given = parse_qs(parts.query)
    is_answer = "state" in given and ("code" in given or "error" in given)
    return address if is_answer and is_loopback(str(parts.hostname)) else None


def _split(address: str) -> SplitResult | None:
    try:
        parts = urlsplit(address)
        # Reading the port checks it.
        return parts if parts.hostname and (parts.port is None or parts.port) else None
    except ValueError:
        return None


_KINDS: Mapping[AddressKind, Callable[[str], str | None]] = {
    AddressKind.CALENDAR: _calendar,
    AddressKind.GOOGLE_REDIRECT: _google_redirect,
}
