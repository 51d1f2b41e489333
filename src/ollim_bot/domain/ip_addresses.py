"""Which addresses are public, and which lead to this machine or its network."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from unicodedata import normalize

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
    if (embedded := _embedded(address)) is not None:
        return is_public(embedded)
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


def _embedded(address: IPv6Address) -> IPv4Address | None:
    for network, bits in _EMBEDDING:
        if address in network:
            return IPv4Address((int(address) >> bits) & 0xFFFFFFFF)
    return None
