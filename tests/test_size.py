"""How large the house may be. A number here only moves the way that makes it smaller."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

SRC = Path(__file__).resolve().parents[1] / "src"

# No more than these. A commit that comes to less writes the lower number here.
MOST = {
    "lines": 108_394,
    "files": 383,
    "private functions that are named once": 1400,
    "private functions with fewer than six lines that are named once": 274,
    "handlers of a storage error": 57,
    "handlers of every error": 58,
}
LINES_PER_FUNCTION = 14.0
SHORT = 6
LONGEST_FILE, LONGEST_FUNCTION = 900, 80
# The files that name this field of a job. Said once, it stands in six at most.
FILES_THAT_NAME = {
    "allow_ping": 19,
    "allowed_tools": 15,
    "first_step": 5,
    "isolated": 6,
    "nag": 14,
    "set_by": 17,
    "thinking": 16,
    "update_main_session": 6,
}


class Function(NamedTuple):
    name: str
    lines: int
    times_named: int


@cache
def texts() -> dict[Path, str]:
    return {path.relative_to(SRC): path.read_text() for path in sorted(SRC.rglob("*.py"))}


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(text) for path, text in texts().items()}


@cache
def functions() -> tuple[Function, ...]:
    return tuple(each for tree in trees().values() for each in _functions(tree))


def _functions(tree: ast.Module) -> Iterator[Function]:
    nodes = [*ast.walk(tree)]
    named = Counter(node.id for node in nodes if isinstance(node, ast.Name))
    named.update(node.attr for node in nodes if isinstance(node, ast.Attribute))
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            yield Function(node.name, lines, named[node.name])


@cache
def caught() -> tuple[str, ...]:
    """What each handler catches."""
    nodes = (node for tree in trees().values() for node in ast.walk(tree))
    handlers = (node for node in nodes if isinstance(node, ast.ExceptHandler))
    return tuple("" if each.type is None else ast.unparse(each.type) for each in handlers)


def counted() -> dict[str, int]:
    once = [
        each
        for each in functions()
        if each.name.startswith("_") and not each.name.endswith("__") and each.times_named == 1
    ]
    numbers = (
        sum(text.count("\n") for text in texts().values()),
        sum(path.name != "__init__.py" for path in texts()),
        len(once),
        sum(each.lines < SHORT for each in once),
        sum("StorageError" in each for each in caught()),
        sum(each in ("", "Exception", "BaseException") for each in caught()),
    )
    return dict(zip(MOST, numbers, strict=True))


def test_the_house_grows_no_more() -> None:
    assert {what: number for what, number in counted().items() if number > MOST[what]} == {}


def test_a_file_is_not_cut_into_ever_smaller_functions() -> None:
    assert counted()["lines"] / len(functions()) >= LINES_PER_FUNCTION


def test_whatever_there_is_can_be_read_at_a_stretch() -> None:
    long_files = [str(path) for path, text in texts().items() if text.count("\n") > LONGEST_FILE]
    long_functions = [each.name for each in functions() if each.lines > LONGEST_FUNCTION]
    assert long_files + long_functions == []


@pytest.mark.parametrize("field", FILES_THAT_NAME)
def test_a_field_of_a_job_is_declared_in_no_further_file(field: str) -> None:
    named = re.compile(rf'\b{field}\b|"{field.replace("_", "-")}"')
    places = [str(path) for path, text in texts().items() if named.search(text)]
    assert len(places) <= FILES_THAT_NAME[field], places
