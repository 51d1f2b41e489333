"""Any file name becomes a name that is safe in a folder."""

from __future__ import annotations

import unicodedata
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ollim_bot.store.attachments.files import LONGEST_NAME, numbered_names, safe_name

HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
given_names = (
    st.text() | st.text("./\\-~ \u202e\u0000\n", min_size=1) | st.text("ab😀.é", min_size=90)
)


@pytest.mark.parametrize(
    ("given_name", "expected"),
    [
        ("report.pdf", "report.pdf"),
        ("My Report (final).PDF", "My Report (final).PDF"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\ada\\notes.txt", "notes.txt"),
        ("folder/", "folder"),
        ("/", "file"),
        ("", "file"),
        ("..", "file"),
        (".env", "env"),
        ("...hidden", "hidden"),
        ("-rf.txt", "rf.txt"),
        ("a\x00b\nc\x1b[31m.txt", "abc[31m.txt"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("\u2066left\u2069.txt", "left.txt"),
        ("two  \u00a0 words\u2028here.txt", "two words here.txt"),
        ("half \ud83d.txt", "half.txt"),
        ("ends. ", "ends"),
        ('what?<is>|"this":*`.txt', "what--is---this----.txt"),
        ("отчёт.pdf", "отчёт.pdf"),
        ("日本語のファイル.txt", "日本語のファイル.txt"),
        ("می\u200cخواهم.txt", "می\u200cخواهم.txt"),
        ("e\u0301te\u0301.txt", "\u00e9t\u00e9.txt"),
        ("x" * 300 + ".pdf", "x" * 96 + ".pdf"),
        ("x." + "y" * 300, "x." + "y" * 98),
        ("😀" * 90 + ".txt", "😀" * 49 + ".txt"),
    ],
)
def test_a_name_keeps_what_is_safe_of_it(given_name: str, expected: str) -> None:
    assert safe_name(given_name) == expected


@given(given_names)
@example("\u202e.\u202e.env")
@example("." * 200 + "/")
@example("\u200d")
def test_every_name_is_safe(given_name: str) -> None:
    for name in islice(numbered_names(safe_name(given_name)), 12):
        assert 1 <= len(name) <= LONGEST_NAME
        assert len(name.encode()) <= 200
        assert not name.startswith((".", "-", " "))
        assert not name.endswith((".", " "))
        assert not set(name) & set('/\\<>:"|?*`\0')
        visible = name.replace("\u200c", "").replace("\u200d", "")
        assert visible
        assert not {unicodedata.category(sign) for sign in visible} & HIDDEN


@given(given_names)
@example(f"{'0' * 82}..{'0' * 17}")
def test_a_safe_name_stays_as_it_is(given_name: str) -> None:
    assert safe_name(safe_name(given_name)) == safe_name(given_name)


@given(given_names)
def test_numbered_names_are_all_different(given_name: str) -> None:
    names = list(islice(numbered_names(safe_name(given_name)), 120))
    assert len(set(names)) == 120
    assert names[0] == safe_name(given_name)


def test_the_number_stands_before_the_ending() -> None:
    assert list(islice(numbered_names("report.pdf"), 3)) == [
        "report.pdf",
        "report-2.pdf",
        "report-3.pdf",
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(given_names)
def test_the_file_system_takes_it(tmp_path: Path, given_name: str) -> None:
    for name in islice(numbered_names(safe_name(given_name)), 2):
        path = tmp_path / f".{name[:60]}.tmp"
        path.write_bytes(b"")
        path.rename(tmp_path / name)
        (tmp_path / name).unlink()
        assert (tmp_path / name).parent == tmp_path
