"""Reads a unit file by the rules of systemd's documentation, for the fake systemd and for tests.

systemd.syntax(7): sections, assignments, comments, lines continued by a backslash, and quoting
with C escapes. systemd.unit(5): specifiers. systemd.service(5): command lines with their prefixes,
and variables. A program's name takes no quotes, backslashes or control characters (seen with
`systemd-analyze verify` of version 252).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    '"': '"',
    "'": "'",
    "s": " ",
}
_SPECIFIERS = {"h": "/home/expanded", "u": "expanded", "%": "%"}


class BadUnit(Exception):
    pass


class Unit:
    def __init__(self, text: str) -> None:
        self._values: dict[str, list[str]] = defaultdict(list)
        section = ""
        for line in _lines(text):
            if line.startswith("[") and line.endswith("]"):
                section = line[1:-1]
            elif "=" not in line:
                raise BadUnit(f"Missing '=': {line}")
            else:
                name, _, value = line.partition("=")
                self._add(f"{section}.{name.strip()}", value.strip())

    def _add(self, key: str, value: str) -> None:
        if value:
            self._values[key].append(value)
        else:
            self._values[key].clear()

    def one(self, key: str, otherwise: str = "") -> str:
        """The last value, which counts for settings that take only one value."""
        return next(reversed(self._values[key]), otherwise)

    def command(self, environment: Mapping[str, str]) -> list[str]:
        """The words that `ExecStart=` runs."""
        first, *rest = (expanded(word) for word in words(self.one("Service.ExecStart")))
        program = first.lstrip("@-:+!")
        if not program.startswith("/"):
            raise BadUnit(f"Executable path is not absolute: {program}")
        if re.search(r"""["'\\\x00-\x1f\x7f]""", program):
            raise BadUnit(f"Executable name contains special characters: {program}")
        if ":" in first[: len(first) - len(program)]:
            return [program, *rest]
        return [program, *(each for word in rest for each in _with_variables(word, environment))]

    def environment(self) -> dict[str, str]:
        pairs = (
            expanded(word) for value in self._values["Service.Environment"] for word in words(value)
        )
        return dict(pair.split("=", 1) for pair in pairs)

    def folder(self) -> str:
        folder = expanded(self.one("Service.WorkingDirectory", "~"))
        if folder != "~" and not folder.startswith("/"):
            raise BadUnit(f"WorkingDirectory= path is not absolute: {folder}")
        return folder


def _lines(text: str) -> Iterator[str]:
    joined = ""
    for line in text.split("\n"):
        if line.lstrip().startswith(("#", ";")):
            continue
        joined += line.lstrip() if not joined else line
        if joined.endswith("\\"):
            joined = f"{joined[:-1]} "
        elif joined.strip():
            yield joined.strip()
            joined = ""
        else:
            joined = ""


def words(value: str) -> list[str]:
    """Split at whitespace, with quotes removed and escapes decoded."""
    found: list[str] = []
    word: str | None = None
    quote = ""
    at = 0
    while at < len(value):
        sign = value[at]
        at += 1
        if sign == "\\":
            decoded, at = _escape(value, at)
            word = (word or "") + decoded
        elif quote:
            if sign == quote:
                quote = ""
            else:
                word = (word or "") + sign
        elif sign in "\"'":
            quote, word = sign, word or ""
        elif sign in " \t\n\r":
            if word is not None:
                found.append(word)
            word = None
        else:
            word = (word or "") + sign
    if quote:
        raise BadUnit(f"Unbalanced quoting: {value}")
    return found if word is None else [*found, word]


def _escape(value: str, at: int) -> tuple[str, int]:
    kind = value[at : at + 1]
    if kind in _ESCAPES and kind:
        return _ESCAPES[kind], at + 1
    for shape, base in ((r"x([0-9a-fA-F]{2})", 16), (r"([0-7]{3})", 8)):
        if number := re.compile(shape).match(value, at):
            return chr(int(number[1], base)), number.end()
    raise BadUnit(f"Unknown escape: \\{kind}")


def expanded(text: str) -> str:
    """The text with its specifiers replaced."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in _SPECIFIERS:
            raise BadUnit(f"Unknown specifier: %{found[1]}")
        return _SPECIFIERS[found[1]]

    return re.sub(r"(?s)%(.?)", value, text)


def _with_variables(word: str, environment: Mapping[str, str]) -> list[str]:
    if found := re.fullmatch(r"\$([A-Za-z_]\w*)", word):
        return environment.get(found[1], "").split()

    def value(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else environment.get(found[1], "")

    return [re.sub(r"\$\$|\$\{([A-Za-z_]\w*)\}", value, word)]
