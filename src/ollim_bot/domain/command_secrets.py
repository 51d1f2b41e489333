"""Shows command lines and addresses without what may be secret in them.

What only looks secret is hidden too. The program, the script, the names of flags and the host stay
readable.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlsplit

HIDDEN = "…"

_SECRET_WORDS = frozenset(
    (
        *("auth", "authorization", "bearer", "cookie", "cookies", "cred", "creds", "credential"),
        *("credentials", "dsn", "jwt", "key", "keys", "apikey", "oauth", "pass", "passphrase"),
        *("passwd", "password", "passwords", "pat", "pin", "psk", "pw", "pwd", "sas", "secret"),
        *("secrets", "session", "sig", "signature", "token", "tokens", "accesskey", "authtoken"),
        *("accesstoken", "secretkey", "apitoken", "userpass"),
    )
)
_WORDS_IN_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# Whose value is a header or a variable of its own.
_OF_PAIRS = frozenset({"-H", "--header", "-e", "--env"})
_SHORT_SECRETS = frozenset({"-p", "-k", "-u", "-t"})
_NAMED = re.compile(r"(?P<head>(?P<name>-{0,2}[A-Za-z_][\w.-]*)\s*(?:=|:\s))(?P<value>.+)", re.S)
# A short option with its value in the same word; so short a value is rather more options.
_GLUED = re.compile(r"(?P<flag>-[A-Za-z])(?P<equals>=?)(?P<value>[^-=].{2,})", re.S)
_GLUING = _OF_PAIRS | _SHORT_SECRETS
# A command line in one word that begins with a variable.
_VARIABLE_FIRST = re.compile(r"[A-Za-z_]\w*=\S*\s")
_PAIR = re.compile(r"""(['"]?[A-Za-z_][\w.-]*['"]?\s*[=:]\s*)(.+)""", re.S)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)
_PIECES = re.compile(r"[A-Za-z0-9]+")
_PLAIN_SEGMENT = re.compile(r"[A-Za-z]{1,20}(?:[-_.][A-Za-z]{1,20})*|[A-Za-z0-9_.@-]{0,11}")
_LONG_PIECE = 16
_LONGEST_NUMBER = 15


def shown_command(words: Sequence[str], hidden: Callable[[str], None] = lambda _: None) -> str:
    """The command line; `hidden` is called with each part that is left out."""
    shown = _shown_words(words, _Hider(hidden))
    return " ".join(word if HIDDEN in word else shlex.quote(word) for word in shown)


def shown_address(url: str, hidden: Callable[[str], None] = lambda _: None) -> str:
    """The address; `hidden` is called with each part that is left out."""
    return _Hider(hidden).address(url)


def _shown_words(words: Sequence[str], hide: _Hider) -> Iterator[str]:
    flag = ""
    for word in words:
        glued = _GLUED.fullmatch(word)
        if glued and glued["flag"] in _GLUING and word[1:].lower() not in _SECRET_WORDS:
            yield f"{glued['flag']}{glued['equals']}{hide.word(glued['value'], glued['flag'])}"
        else:
            yield hide.word(word, flag)
        flag = word if word.startswith("-") and "=" not in word else ""


class _Hider:
    def __init__(self, hidden: Callable[[str], None]) -> None:
        self._hidden = hidden

    def whole(self, text: str) -> str:
        if text:
            self._hidden(text)
        return HIDDEN if text else ""

    def word(self, word: str, flag: str) -> str:
        """A word of a command line behind `flag`, which is empty if the word stands alone."""
        if flag in _OF_PAIRS:
            return self._pair(word)
        if flag and _is_secret_name(flag) and not word.startswith("--"):
            return self.whole(word)
        if flag in _SHORT_SECRETS and not word.isdecimal() and not word.startswith("-"):
            return self.whole(word)
        if _ADDRESS.match(word):
            return self.address(word)
        if word.lstrip().startswith(("{", "[")):
            # Text in another notation, such as JSON: a key could be anywhere in it.
            return self.whole(word)
        named = _NAMED.fullmatch(word)
        if _VARIABLE_FIRST.match(word):
            named = None
        if named and (named["name"] in _OF_PAIRS or _is_secret_name(named["name"])):
            is_pair = named["name"] in _OF_PAIRS
            value = named["value"]
            return f"{named['head']}{self._pair(value) if is_pair else self.whole(value)}"
        if any(map(str.isspace, word.strip())):
            # A command line in one word, such as that of `sh -c`.
            try:
                words = shlex.split(word)
            except ValueError:
                words = word.split()
            return " ".join(_shown_words(words, self))
        if named:
            return f"{named['head']}{self.word(named['value'], '')}"
        return "/".join(self.whole(part) if _is_random(part) else part for part in word.split("/"))

    def address(self, url: str) -> str:
        try:
            parts = urlsplit(url)
            port = f":{parts.port}" if parts.port is not None else ""
        except ValueError:
            return self.whole(url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
        user = f"{self.whole(parts.netloc.rpartition('@')[0])}@" if "@" in parts.netloc else ""
        path = "/".join(
            each if _PLAIN_SEGMENT.fullmatch(each) else self.whole(each)
            for each in parts.path.split("/")
        )
        values = (each.partition("=") for each in parts.query.split("&") if each)
        query = "&".join(
            f"{name}={self.whole(value)}" if equals else self.whole(name)
            for name, equals, value in values
        )
        fragment = self.whole(parts.fragment)
        behind = (f"?{query}" if query else "") + (f"#{fragment}" if fragment else "")
        return f"{parts.scheme}://{user}{host}{port}{path}{behind}"

    def _pair(self, word: str) -> str:
        pair = _PAIR.fullmatch(word)
        return f"{pair[1]}{self.whole(pair[2])}" if pair else self.whole(word)


def _is_secret_name(name: str) -> bool:
    return any(each.lower() in _SECRET_WORDS for each in _WORDS_IN_NAME.findall(name))


def _is_random(text: str) -> bool:
    return bool(_UUID.search(text)) or any(map(_is_random_piece, _PIECES.findall(text)))


def _is_random_piece(piece: str) -> bool:
    if len(piece) < _LONG_PIECE:
        return False
    digits = sum(map(str.isdecimal, piece))
    if digits == len(piece):
        return digits > _LONGEST_NUMBER
    capitals = sum(map(str.isupper, piece))
    return digits >= 3 or (capitals >= 4 and capitals < len(piece) and capitals * 4 > len(piece))
