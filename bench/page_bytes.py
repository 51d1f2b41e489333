"""The bytes that the page loads: for the conversation, for each view, and in all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from importlib.resources import files
from pathlib import Path

from bench.measure import Result, Unit

MOST_OF_CHAT, MOST_OF_VIEW, MOST_IN_ALL = 203_776, 25_000, 350_000

_STATIC = Path(str(files("ollim_bot.surfaces.web"))) / "static"
_LINKED = re.compile(r'(?:href|src)="/static/([\w.]+)"')
_IMPORTED = re.compile(r'^(?:import|export)\b[^;]*?from "\./([\w.]+)"|^import "\./([\w.]+)"', re.M)
_VIEW = re.compile(r'\{ name: "([\w-]+)", path: [^}]*?(?:style: "([\w.]+)")? \}')
# What every view loads beside its own style, and what Today loads more.
_OF_VIEWS, _OF_TODAY = ("panel.js", "panel.css"), ("today.js",)


def rows() -> list[Result]:
    chat = _with_imports({"index.html", *_LINKED.findall(_text("index.html"))})
    all_ = {each.name for each in _STATIC.iterdir()}
    unit, base, whole = Unit.BYTES, _size(chat), _size(all_)
    found = [Result("bytes of Chat", base, "all of the page", whole, most=MOST_OF_CHAT, unit=unit)]
    for name, style in _VIEW.findall(_text("views.js")):
        if name != "chat":
            own = {*_OF_VIEWS, *(_OF_TODAY if name == "today" else ()), *filter(None, [style])}
            more = _size(_with_imports(own) - chat)
            row = f"bytes that the view {name} adds"
            found.append(Result(row, more, "bytes of Chat", base, most=MOST_OF_VIEW, unit=unit))
    row = "bytes of the page in all"
    found.append(Result(row, whole, "bytes of Chat", base, most=MOST_IN_ALL, unit=unit))
    return found


def _with_imports(names: Iterable[str]) -> set[str]:
    """The files, and those that they load at once."""
    found: set[str] = set()
    waiting = [*names]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            if name.endswith(".js"):
                waiting += [a or b for a, b in _IMPORTED.findall(_text(name))]
    return found


def _size(names: Set[str]) -> int:
    return sum((_STATIC / name).stat().st_size for name in names)


def _text(name: str) -> str:
    return (_STATIC / name).read_text()
