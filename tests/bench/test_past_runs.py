"""Results of past runs are kept, and compared only on similar machines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from bench.measure import Result
from bench.report import FILE, Run, UsualRatio, append, read, this_run, usual_ratios
from hypothesis import given
from hypothesis import strategies as st

NOW = Run("2026-11-15T12:00Z", "0.5.0", None, "3.11.7", 2, "Linux x86_64", {"start": (1.0, 2.0)})
NUMBERS = st.floats(0, 1e9, allow_nan=False)


def with_ratio(ratio: float) -> Run:
    return replace(NOW, rows={"start": (ratio, 1.0)})


@given(st.dictionaries(st.text(), st.tuples(NUMBERS, NUMBERS)), st.text() | st.none())
def test_a_run_is_read_as_it_was_appended(
    tmp_path_factory: pytest.TempPathFactory,
    rows: dict[str, tuple[float, float]],
    commit: str | None,
) -> None:
    file = tmp_path_factory.mktemp("runs") / "past.jsonl"
    runs = [replace(NOW, rows=rows, commit=commit), NOW]
    for run in runs:
        append(file, run)
    assert read(file) == runs
    assert len(file.read_text().splitlines()) == 2


def test_without_a_file_there_is_no_past(tmp_path: Path) -> None:
    assert read(tmp_path / "none.jsonl") == []
    assert usual_ratios(NOW, []) == {}


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "past.jsonl"
    file.write_text('{"date": "today"}\n')
    with pytest.raises(ValueError, match="without rows"):
        read(file)


def test_the_usual_ratio_is_the_median_of_the_last_five() -> None:
    runs = [with_ratio(ratio) for ratio in (100, 100, 100, 1, 9, 2, 8, 3)]
    assert usual_ratios(NOW, runs)["start"] == UsualRatio(3, 5)


@pytest.mark.parametrize(
    "other", [{"python": "3.12.1"}, {"cores": 8}, {"system": "Darwin arm64"}, {"rows": {}}]
)
def test_only_like_machines_that_have_measured_it_count(other: dict[str, object]) -> None:
    assert usual_ratios(NOW, [replace(NOW, **other)]) == {}  # type: ignore[arg-type]


def test_another_patch_of_python_is_a_like_machine() -> None:
    assert usual_ratios(NOW, [replace(NOW, python="3.11.9")])["start"] == UsualRatio(1.0, 1)


def test_a_quarter_more_than_usual_is_worse_once_it_was_measured_a_few_times() -> None:
    assert UsualRatio(2.0, 3).is_worse(2.51)
    assert not UsualRatio(2.0, 3).is_worse(2.5)
    assert not UsualRatio(2.0, 2).is_worse(100.0)
    assert UsualRatio(0.0, 5).is_worse(0.1)


@pytest.mark.real_process
def test_a_run_tells_of_the_machine_but_names_nobody(tmp_path: Path) -> None:
    run = this_run([Result("start", 1.0, "bare", 3.0)], tmp_path)
    assert run.commit is None
    assert run.rows == {"start": (0.3333, 1.0)}
    assert run.is_like(this_run([], tmp_path))


def test_the_file_in_the_repository_can_be_read_and_holds_no_place() -> None:
    for run in read(FILE):
        assert run.rows
        assert "/" not in json.dumps([run.commit, run.python, run.system, run.version])
