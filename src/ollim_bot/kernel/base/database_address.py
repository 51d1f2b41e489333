"""The address of a PostgreSQL server: whether what goes there can be read on the way."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import parse_qs, urlsplit

SCHEMES = ("postgresql", "postgres")
SAFE_MODE = "verify-full"


def is_on_this_machine(hosts: str) -> bool:
    """Whether each host is a socket, or an address that no network sees; none is a socket."""
    return all(map(_is_local, hosts.split(",")))


def _is_local(host: str) -> bool:
    if not host or host.startswith(("/", "@")) or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def problem_with_address(text: str) -> str:
    """Why the address cannot be used, and what would be right; empty if it can. Never shows it."""
    try:
        parts = urlsplit(text)
        options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        host = options.get("hostaddr") or options.get("host") or parts.hostname or ""
    except ValueError:
        return _NO_ADDRESS
    if parts.scheme not in SCHEMES or not text.startswith(f"{parts.scheme}://"):
        return _NO_ADDRESS
    mode = options.get("sslmode", SAFE_MODE)
    if mode != SAFE_MODE and not is_on_this_machine(host):
        return _UNSAFE.format(safe=SAFE_MODE)
    return ""


def shows_key(text: str) -> bool:
    """Whether the text holds an address with a password."""
    return re.search(r"postgres(ql)?:/+([^\s/]*:[^\n]*@|\S*password=)", text, re.I) is not None


IS_KEY = (
    "The address of the database is a key, and no command takes it as an argument: the history of "
    "your shell would keep it. Write it into a file that only you can read, and name that: "
    "`--from FILE`."
)
_NO_ADDRESS = (
    "is not the address of a PostgreSQL database. Right: "
    "postgresql://ollim:password@db.example.org/ollim, or postgresql:///ollim on this machine."
)
_UNSAFE = (
    "lets others on the network read the conversation, or pretend to be the server. Right: "
    "sslmode={safe}, or no sslmode at all, which means the same."
)
