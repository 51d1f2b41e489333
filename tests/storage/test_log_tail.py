"""The newest entries of a log, read from its end."""

from __future__ import annotations

import os
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.storage.places import DataDirectory, QuickDisk
from tests.storage.test_json_lines import row

from ollim_bot.store.files import lines_backwards

BLOCK = 65536
LONG = b" ".join(str(number).encode() for number in range(3 * BLOCK // 4))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.binary(max_size=20) | st.integers(BLOCK - 3, 2 * BLOCK + 3).map(lambda size: LONG[:size])
    )
)
def test_lines_read_backwards_are_the_lines_reversed(tmp_path: Path, parts: list[bytes]) -> None:
    content = b"\n".join(parts)
    path = tmp_path / "lines"
    path.write_bytes(content)
    # Compared by hand: a difference of so many bytes takes minutes to be shown.
    is_same = list(lines_backwards(path))[::-1] == content.split(b"\n")
    assert is_same


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    st.lists(st.sampled_from([9, 10, 11]).map(lambda m: datetime(2026, m, 2, tzinfo=UTC))),
    st.integers(0, 12),
    st.sampled_from([b"", b'{"ts": "2026-', b"\n\n", b"\xff\xfe\n"]),
)
def test_the_tail_is_the_end_of_what_reading_gives(
    data: DataDirectory, moments: list[datetime], limit: int, torn: bytes
) -> None:
    for path in data.paths.state.glob("ledger*"):
        path.unlink()
    stores = data.open(QuickDisk())
    for number, moment in enumerate(moments):
        stores.ledger.append(row(number, moment))
    with data.paths.ledger.open("ab") as file:
        file.write(torn)
    everything = stores.ledger.read()
    tail = stores.ledger.tail(limit)
    assert list(tail.entries) == list(everything.entries)[max(0, len(moments) - limit) :]
    assert tail.skipped <= everything.skipped


def test_several_files_of_one_month_keep_their_order(data: DataDirectory) -> None:
    for number in (*range(2, 12), 1):
        part = "" if number == 1 else f"-{number}"
        path = data.paths.state / f"ledger-2026-10{part}.jsonl"
        data.open(QuickDisk()).ledger.append(row(number))
        os.rename(data.paths.ledger, path)
    numbers = list(range(1, 12))
    assert [each.facts["number"] for each in data.open().ledger.read().entries] == numbers
    assert [each.facts["number"] for each in data.open().ledger.tail(3).entries] == numbers[-3:]


def test_a_tail_reads_the_end_only(data: DataDirectory) -> None:
    """The history before it is a hole of 64 MB, which costs nothing unless it is read."""
    data.open().ledger.append(row(0, datetime(2026, 10, 2, tzinfo=UTC)))
    (data.paths.state / "ledger-2026-09.jsonl").mkdir()
    hole = 64 * 1024 * 1024
    with data.paths.ledger.open("r+b") as file:
        file.truncate(hole)
        file.seek(hole)
        file.write(b"\n")
    stores = data.open(QuickDisk())
    expected = [row(number, datetime(2026, 10, 2, tzinfo=UTC)) for number in range(999)]
    stores.ledger.append(*expected)
    tracemalloc.start()
    tail = stores.ledger.tail(50)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert list(tail.entries) == expected[-50:]
    assert peak < 1024 * 1024


def test_a_log_that_is_no_file_has_no_tail(data: DataDirectory) -> None:
    data.paths.ledger.mkdir()
    assert data.open().ledger.tail(1).entries == []
    assert [problem.reason for problem in data.problems] == ["not a regular file"]
