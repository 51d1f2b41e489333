"""A table of cases is one test that tries each case once and names those that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.cases import cases_of, one_test


def tried(test: Callable[..., object]) -> object:
    return one_test(test, cases_of(test))()


def test_each_case_is_tried_once_also_after_one_that_fails() -> None:
    seen = []

    @pytest.mark.parametrize(("left", "right"), [(1, 1), (1, 2), pytest.param(2, 3, id="named")])
    @pytest.mark.parametrize("word", ["a", "b"], ids=str.upper)
    def compare(left: int, right: int, word: str) -> None:
        seen.append((left, right, word))
        assert left == right

    with pytest.raises(ExceptionGroup, match="4 of 6 cases fail") as failed:
        tried(compare)
    assert seen == [
        (1, 1, "a"), (1, 1, "b"), (1, 2, "a"), (1, 2, "b"), (2, 3, "a"), (2, 3, "b"),
    ]  # fmt: skip
    notes = [note for error in failed.value.exceptions for note in error.__notes__]
    assert notes == [
        f"The case that fails: left={left}, right={right}, word={word!r}"
        for left, right, word in seen[2:]
    ]


def test_one_case_that_fails_is_told_like_a_test_with_its_case() -> None:
    @pytest.mark.parametrize("number", [1, 0])
    async def divide(number: int) -> None:
        await asyncio.sleep(0)
        assert 1 / number

    async def run() -> None:
        await one_test(divide, cases_of(divide))()

    with pytest.raises(ZeroDivisionError) as failed:
        asyncio.run(run())
    assert failed.value.__notes__ == ["The case that fails: number=0"]


def test_a_case_that_is_skipped_does_not_hide_the_ones_after_it() -> None:
    seen = []

    @pytest.mark.parametrize("number", [1, 2])
    def skip(number: int) -> None:
        seen.append(number)
        if number == 1:
            pytest.skip("not here")

    with pytest.raises(pytest.skip.Exception):
        tried(skip)
    assert seen == [1, 2]


@pytest.mark.parametrize(
    "table",
    [
        pytest.mark.parametrize("number", [pytest.param(1, marks=pytest.mark.xfail)]),
        pytest.mark.parametrize("number", [1], indirect=True),
        pytest.mark.parametrize("number", iter([1])),
        pytest.mark.parametrize("number", []),
        pytest.mark.chaos,
    ],
)
def test_what_only_pytest_can_try_is_left_to_it(table: pytest.MarkDecorator) -> None:
    def test(number: int) -> None:
        raise NotImplementedError

    assert cases_of(table(test)) == []
