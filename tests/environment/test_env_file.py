"""`.env` files: what is read, what is refused, and what is never shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.environment import load_env_file, read_env_file


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("KEY=value", "value", id="plain"),
        pytest.param("export KEY=value", "value", id="export"),
        pytest.param("\texport\tKEY = value \t", "value", id="spaces-round-everything"),
        pytest.param("\ufeffKEY=value\r\n", "value", id="bom-and-crlf"),
        pytest.param("KEY=value\rOTHER=x", "value", id="old-line-ends"),
        pytest.param("KEY=two words", "two words", id="unquoted-with-a-space"),
        pytest.param("KEY=value # why", "value", id="inline-comment"),
        pytest.param("KEY=value\t# why", "value", id="inline-comment-after-a-tab"),
        pytest.param("KEY=a#b", "a#b", id="hash-inside-a-word"),
        pytest.param("KEY=#b", "#b", id="hash-at-once"),
        pytest.param("KEY= # nothing", "", id="only-a-comment"),
        pytest.param("KEY=", "", id="empty"),
        pytest.param("KEY=O'Brien", "O'Brien", id="quote-inside-a-word"),
        pytest.param("KEY=a=b=c", "a=b=c", id="equals-in-the-value"),
        pytest.param("KEY=$HOME", "$HOME", id="no-expansion"),
        pytest.param(r"KEY='a\n$b # \'", r"a\n$b # \ "[:-1], id="single-quotes-are-literal"),
        pytest.param(r'KEY="a\n\t\r\"\\\$\`"', 'a\n\t\r"\\$`', id="double-quotes-with-escapes"),
        pytest.param('KEY="a # b" # c', "a # b", id="hash-inside-quotes"),
        pytest.param('KEY="one\ntwo"', "one\ntwo", id="lines-in-double-quotes"),
        pytest.param("KEY='one\r\ntwo'", "one\ntwo", id="lines-in-single-quotes"),
        pytest.param("KEY=''", "", id="empty-in-quotes"),
        pytest.param("export=value\nKEY=x", "x", id="a-name-that-is-export"),
        pytest.param("KEY=\u2028x\x0b", "\u2028x\x0b", id="only-newlines-end-lines"),
    ],
)
def test_a_right_line_is_read(text: str, value: str) -> None:
    file = read_env_file(text)
    assert file.values["KEY"] == value
    assert file.problems == ()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        pytest.param(
            "KEY value", "has no `=`. Write NAME=value, or # before a comment.", id="no-="
        ),
        pytest.param(
            "MY-KEY=value",
            "before `=` stands one name of letters, digits and _, such as OLLIM_TIMEZONE=…",
            id="bad-name",
        ),
        pytest.param(
            "=value",
            "before `=` stands one name of letters, digits and _, such as OLLIM_TIMEZONE=…",
            id="no-name",
        ),
        pytest.param(
            "TWO NAMES=value",
            "before `=` stands one name of letters, digits and _, such as OLLIM_TIMEZONE=…",
            id="two-names",
        ),
        pytest.param(
            'KEY="value',
            'KEY: the quotes do not match. Write KEY="value" and nothing after it.',
            id="open-double-quote",
        ),
        pytest.param(
            "KEY='value",
            'KEY: the quotes do not match. Write KEY="value" and nothing after it.',
            id="open-single-quote",
        ),
        pytest.param(
            'KEY="value" more',
            'KEY: the quotes do not match. Write KEY="value" and nothing after it.',
            id="text-after-quotes",
        ),
        pytest.param(
            r'KEY="C:\dir"',
            "KEY: in double quotes a backslash is written twice (\\\\), "
            'or stands before one of n t r " $ `.',
            id="unknown-escape",
        ),
        pytest.param(
            "KEY=\udce4", "KEY: is not UTF-8 text. Save the file as UTF-8.", id="not-utf-8"
        ),
        pytest.param("KEY=a\0b", "KEY: is not UTF-8 text. Save the file as UTF-8.", id="nul"),
    ],
)
def test_a_wrong_line_is_told_with_its_number_and_the_others_are_still_read(
    line: str, sentence: str
) -> None:
    file = read_env_file(f"A=1\n\n# note\n{line}\nB=2\n")
    assert file.values == {"A": "1", "B": "2"}
    assert [(problem.line, problem.sentence) for problem in file.problems] == [(4, sentence)]


def test_no_sentence_repeats_a_value() -> None:
    secret = "hunter2hunter2"
    lines = (f"KEY {secret}", f"{secret}", f'KEY="{secret}', f'KEY="\\d{secret}"', f"K-={secret}")
    problems = read_env_file("\n".join(lines)).problems
    assert len(problems) == len(lines)
    assert all(secret not in problem.sentence for problem in problems)


def test_a_name_set_twice_is_a_problem_that_names_both_lines() -> None:
    file = read_env_file("KEY=first\nOTHER=x\nKEY=second")
    assert file.values == {"KEY": "first", "OTHER": "x"}
    assert file.problems == (
        (3, "KEY: is set twice, in line 1 and in line 3. Keep one of them.", "KEY"),
    )


def test_a_problem_knows_which_setting_it_is_about() -> None:
    problems = read_env_file("ONE two\nexport THREE: four\n-=x\nFIVE='").problems
    assert [problem.name for problem in problems] == ["ONE", "THREE", None, "FIVE"]


def test_lines_are_counted_across_values_of_many_lines() -> None:
    file = read_env_file('A="1\n2\n3"\nB=4\nwrong')
    assert file.lines == {"A": 1, "B": 4}
    assert file.problems[0].line == 5


def test_an_open_quote_does_not_swallow_the_lines_below() -> None:
    file = read_env_file('A="1\nB=2\nC="3"\n')
    assert file.values == {"B": "2", "C": "3"}
    assert [problem.line for problem in file.problems] == [1]


@given(st.text())
def test_no_text_makes_reading_fail(text: str) -> None:
    read_env_file(text)


_PIECES = st.sampled_from(["KEY", "A", "=", "'", '"', "\\", "#", " ", "\n", "\r", "export ", "x"])


@given(st.lists(_PIECES).map("".join))
def test_whatever_is_read_stands_on_the_line_it_claims(text: str) -> None:
    file = read_env_file(text)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for name, number in file.lines.items():
        assert name in lines[number - 1]
    for problem in file.problems:
        assert lines[problem.line - 1].strip()


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_any_value_survives_being_written_in_double_quotes(value: str) -> None:
    escapes = {"\n": "n", "\t": "t", "\r": "r", '"': '"', "\\": "\\", "$": "$", "`": "`"}
    written = value.translate({ord(plain): f"\\{letter}" for plain, letter in escapes.items()})
    file = read_env_file(f'BEFORE=1\nKEY="{written}"\nAFTER=2\n')
    assert file.values == {"BEFORE": "1", "KEY": value, "AFTER": "2"}
    assert file.problems == ()


def test_a_missing_file_is_empty(tmp_path: Path) -> None:
    assert load_env_file(tmp_path / ".env").values == {}
    (tmp_path / "file").write_text("x")
    assert load_env_file(tmp_path / "file" / ".env").problems == ()


def test_a_folder_in_the_place_of_the_file_is_no_file(tmp_path: Path) -> None:
    assert load_env_file(tmp_path).problems == ()


def test_bytes_that_are_not_utf_8_spoil_only_their_line(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_bytes(b"# K\xe4se\nA=\xe4\nB=gr\xc3\xbcn\n")
    file = load_env_file(path)
    assert file.values == {"B": "grün"}
    assert [problem.line for problem in file.problems] == [2]


@pytest.mark.parametrize(("mode", "open_to_others"), [(0o600, False), (0o640, True), (0o604, True)])
def test_a_file_that_others_can_read_says_so(
    tmp_path: Path, mode: int, open_to_others: bool
) -> None:
    path = tmp_path / ".env"
    path.touch()
    path.chmod(mode)
    assert load_env_file(path).open_to_others is open_to_others
