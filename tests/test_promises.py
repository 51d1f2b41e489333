"""The tests and commands on the page of promises exist, and each promise has some."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "promises.md"
TEXT = PAGE.read_text()
PROMISES = [f"P{number}" for number in range(1, 11)]

_SECTION = re.compile(r"^## (P\d+)\b.*?\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
_BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
_ANCHOR = re.compile(r"\]\(#([^)]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_TARGET = re.compile(r"^([a-z]+):", re.MULTILINE)
SECTIONS = dict(_SECTION.findall(TEXT))


def named(text: str) -> list[str]:
    """Everything that is written as a test, existing or not."""
    return [f"tests/{code}" for code in _CODE.findall(_BLOCK.sub("", text)) if "::" in code]


def commands(text: str) -> list[str]:
    lines = [line for block in _BLOCK.findall(text) for line in block.splitlines()]
    lines += _CODE.findall(_BLOCK.sub("", text))
    return [line for line in lines if line.startswith("make ")]


def paths_of(command: str) -> list[str]:
    """The paths in the `TESTS=` of a command."""
    _, _, given = command.partition("TESTS=")
    return given.strip('"').split()


def is_test(test: str) -> bool:
    file, _, name = test.partition("::")
    path = ROOT / file
    return path.is_file() and name in functions(path)


def functions(path: Path) -> set[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = {node.name for node in ast.parse(path.read_text()).body if isinstance(node, kinds)}
    return {name for name in found if name.startswith("test_")}


def is_command(command: str) -> bool:
    target = command.split()[1]
    is_known = target in _TARGET.findall((ROOT / "Makefile").read_text())
    return is_known and all((ROOT / path).exists() for path in paths_of(command))


def is_run(test: str, text: str) -> bool:
    """Whether one of the commands of the text runs the test."""
    paths = [path for command in commands(text) for path in paths_of(command)]
    file = test.partition("::")[0]
    return any(file == path or file.startswith(f"{path.rstrip('/')}/") for path in paths)


def anchor(heading: str) -> str:
    """The anchor of a heading, as Markdown viewers make it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_every_promise_has_its_section() -> None:
    assert list(SECTIONS) == PROMISES


@pytest.mark.parametrize("promise", PROMISES)
def test_every_promise_names_tests_and_a_command_that_runs_them(promise: str) -> None:
    text = SECTIONS[promise]
    assert len(named(text)) >= 3
    assert [test for test in named(text) if not is_run(test, text)] == []


def test_every_test_that_is_named_exists() -> None:
    assert [test for test in sorted(set(named(TEXT))) if not is_test(test)] == []


@pytest.mark.parametrize("command", sorted(set(commands(TEXT))))
def test_every_command_that_is_named_can_be_given(command: str) -> None:
    assert is_command(command)


def test_every_link_leads_somewhere() -> None:
    links = _LINK.findall(TEXT)
    assert links
    assert [link for link in links if not (PAGE.parent / link).exists()] == []
    assert set(_ANCHOR.findall(TEXT)) <= {anchor(heading) for heading in _HEADING.findall(TEXT)}


def test_what_does_not_exist_is_found_out() -> None:
    """Proof that these checks can fail."""
    here = "test_promises.py"
    wrong = f"`{here}::test_gone`, `gone.py::test_x`, `{here}::is_test`"
    assert [is_test(test) for test in named(wrong)] == [False] * 3
    assert is_test(f"tests/{here}::test_what_does_not_exist_is_found_out")
    run = "make test TESTS=tests/kernel/values"
    lost = f"`make nothing`\n```\nmake test TESTS=tests/gone\n```\n`{run}`"
    assert sorted(map(is_command, commands(lost))) == [False, False, True]
    assert is_run("tests/kernel/values/test_cron.py::test_x", lost)
    assert not is_run("tests/kernel/values_of_others/test_x.py::test_x", lost)
