"""A table of cases is one test, which tries all of them and names each case that fails.

To set up and report a test takes longer than most cases do. Each case stays a test where it has
something of its own: a real process, or fixtures, unless the mark `same_fixtures` says that no case
changes them for the next. With `--each-case` each case is a test, and so it is where the name of a
test was given with its case in brackets.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from itertools import product
from typing import Any

import pytest
from tests.kinds import REAL_MARKS

_SAME_FIXTURES = "same_fixtures"
_LONGEST_VALUE = 200
_FAILURES = (Exception, pytest.fail.Exception, pytest.skip.Exception)
_PARAM = type(pytest.param())

Case = Mapping[str, Any]
Test = Callable[..., Any]


class CaseTables:
    """A plugin that makes one test of each table of cases."""

    def pytest_configure(self, config: pytest.Config) -> None:
        meaning = "no case of the table changes the fixtures for the next"
        config.addinivalue_line("markers", f"{_SAME_FIXTURES}: {meaning}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(
        self, collector: pytest.Collector, name: str, obj: object
    ) -> list[pytest.Function] | None:
        if not isinstance(collector, pytest.Module) or not inspect.isfunction(obj):
            return None
        marks = {mark.name for mark in (*collector.iter_markers(), *_marks(obj))}
        if not collector.istestfunction(obj, name) or _is_each_a_test(collector.config, marks):
            return None
        cases = cases_of(obj)
        if not cases:
            return None
        has_fixtures = "usefixtures" in marks or _fixtures(obj, cases[0])
        if has_fixtures and _SAME_FIXTURES not in marks:
            return None
        made = one_test(obj, cases)
        setattr(collector.obj, name, made)
        return list(collector._genfunctions(name, made))


def _is_each_a_test(config: pytest.Config, marks: set[str]) -> bool:
    if config.option.each_case or any("[" in each for each in config.args):
        return True
    return not marks.isdisjoint(REAL_MARKS)


def _marks(test: Test) -> Sequence[pytest.Mark]:
    return getattr(test, "pytestmark", ())


def _fixtures(test: Test, case: Case) -> list[inspect.Parameter]:
    parameters = inspect.signature(test).parameters.values()
    return [each for each in parameters if each.name not in case]


def cases_of(test: Test) -> list[Case]:
    """The cases of a test; none if only pytest can make them."""
    # The first mark is the nearest to the function, and its cases change fastest.
    tables = [_table(mark) for mark in reversed(_marks(test)) if mark.name == "parametrize"]
    if not tables or hasattr(test, "hypothesis"):
        return []
    return [{name: part[name] for part in parts for name in part} for parts in product(*tables)]


def _table(mark: pytest.Mark) -> list[Case]:
    if len(mark.args) != 2 or mark.kwargs.keys() - {"ids"}:
        return []
    names, values = mark.args
    if isinstance(names, str):
        names = [each.strip() for each in names.split(",") if each.strip()]
    if not isinstance(values, Collection):
        return []
    rows = [each if isinstance(each, _PARAM) else _row(names, each) for each in values]
    if any(each.marks for each in rows):
        return []
    return [dict(zip(names, each.values, strict=True)) for each in rows]


def _row(names: Sequence[str], value: Any) -> Any:
    return pytest.param(*value) if len(names) > 1 else pytest.param(value)


def one_test(test: Test, cases: Sequence[Case]) -> Test:
    """A test that tries all cases, and fails with each that fails."""

    @wraps(test)
    def tried(**fixtures: Any) -> None:
        failures = _Failures()
        for case in cases:
            with failures.of(case):
                test(**fixtures, **case)
        failures.tell(len(cases))

    @wraps(test)
    async def tried_in_loop(**fixtures: Any) -> None:
        failures = _Failures()
        for case in cases:
            with failures.of(case):
                await test(**fixtures, **case)
        failures.tell(len(cases))

    made: Any = tried_in_loop if inspect.iscoroutinefunction(test) else tried
    made.__signature__ = inspect.Signature(_fixtures(test, cases[0]))
    made.pytestmark = [mark for mark in _marks(test) if mark.name != "parametrize"]
    return made  # type: ignore[no-any-return]


class _Failures:
    def __init__(self) -> None:
        self._errors: list[BaseException] = []

    @contextmanager
    def of(self, case: Case) -> Iterator[None]:
        try:
            yield
        except _FAILURES as error:
            error.add_note(f"The case that fails: {_words(case)}")
            self._errors.append(error)

    def tell(self, tried: int) -> None:
        failed = [each for each in self._errors if not isinstance(each, pytest.skip.Exception)]
        if len(failed) > 1:
            raise BaseExceptionGroup(f"{len(failed)} of {tried} cases fail", failed)
        for error in failed or self._errors:
            raise error


def _words(case: Case) -> str:
    return ", ".join(f"{name}={_short(repr(value))}" for name, value in case.items())


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
