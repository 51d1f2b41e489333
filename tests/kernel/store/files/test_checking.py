"""The check before a write accepts a text exactly if it can be read afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kernel.store.files.data_directory import DataDirectory

from ollim_bot.kernel.base.errors import Unreadable
from ollim_bot.kernel.store.job_checker import JobFileChecker
from ollim_bot.kernel.values.shared_files import JobFile, JobFolder

DAILY = JobFile(JobFolder.ROUTINES, "daily.md")
MAIL = JobFile(JobFolder.SKILLS, "mail/SKILL.md")
GOOD = '---\nid: daily\ncron: "0 9 * * *"\n---\nPlan.\n'

LINES = st.sampled_from(
    [
        "id: a", "id: B", "cron: '0 9 * * *'", "cron: x", "late: run", "late: x", "model: opus",
        "background: true", "isolated: true", "allowed-tools: [Read]", "allowed_tools: 3",
        "mood: calm", "deny: x", "- x", "run-at: 2026-11-16T09:00", "must: true", "fields: {a: 1}",
    ]
)  # fmt: skip


@given(st.lists(LINES, max_size=5), st.sampled_from(["Plan.", "", "---"]))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_text_is_right_exactly_if_the_file_is(
    data: DataDirectory, lines: list[str], body: str
) -> None:
    text = "".join(f"{line}\n" for line in ["---", *lines, "---", body])
    found = JobFileChecker(data.paths).read(DAILY, text)
    (data.paths.routines / "daily.md").write_text(text)
    report = data.open().routines.report()

    assert list(found.problems) == list(report.problems)
    assert [one.item for one in report.jobs] == ([found.job] if found.job else [])


def test_the_tools_of_a_file_are_known_where_the_rest_is_wrong(data: DataDirectory) -> None:
    text = GOOD.replace("---\nPlan", "late: x\nallowed-tools: [Read, Write]\n---\nPlan")
    found = JobFileChecker(data.paths).read(DAILY, text)
    assert found.job is None
    assert (found.tools, found.tools_line) == (("Read", "Write"), 5)


def test_a_right_skill_has_its_tools_and_no_job(data: DataDirectory) -> None:
    text = "---\nname: mail\ndescription: Mail.\nlicense: MIT\nallowed-tools: [Read]\n---\nx\n"
    found = JobFileChecker(data.paths).read(MAIL, text)
    assert (found.problems, found.job, found.tools) == ((), None, ("Read",))


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("description: x", "skills/mail/SKILL.md: name: is missing"),
        ("name: mail\ndescription: ''", "skills/mail/SKILL.md:3: description: is empty"),
        ("name: post\ndescription: x", ":2: name: must be the name of its folder, mail"),
        ("name: mail\ndescription: x\nhooks: {Stop: []}", ":4: hooks: would make the"),
        ("name: mail\ndescription: x\nmodel: opus", ":4: model: would make the"),
        ("name: mail\ndescription: [x]", ":3: description: ['x'] is not right; it takes text"),
        ("name: mail\ndescription: x\nallowed_tools: 3", "it takes a list"),
    ],
)
def test_what_is_wrong_with_a_skill_is_said(data: DataDirectory, lines: str, problem: str) -> None:
    (found,) = JobFileChecker(data.paths).read(MAIL, f"---\n{lines}\n---\nx\n").problems
    assert problem in found


@pytest.mark.parametrize(
    "lines",
    [
        'name: mail\ndescription: "x\nhooks: {}\n "',
        'name: mail\ndescription: "x\n ---\n y"',
        "{name: mail, description: x}",
        '"name": mail\ndescription: x',
        "? name\n: mail\ndescription: x",
        "name: mail\ndescription: x\n...",
    ],
)
def test_a_skill_that_the_engine_could_read_otherwise_is_wrong(
    data: DataDirectory, lines: str
) -> None:
    found = JobFileChecker(data.paths).read(MAIL, f"---\n{lines}\n---\nx\n").problems
    assert any("plain line" in problem or "YAML" in problem for problem in found)


def test_a_skill_of_several_lines_and_comments_is_right(data: DataDirectory) -> None:
    lines = "# Mail.\nname: mail\n\ndescription: >\n  Reads\n  mail.\nallowed-tools:\n- Read\n"
    for text in (f"---\n{lines}---\n---\nhooks: x\n", f"---\n{lines}---\nx".replace("\n", "\r\n")):
        assert JobFileChecker(data.paths).read(MAIL, text).problems == ()


def test_the_text_of_a_file_is_all_of_it(data: DataDirectory) -> None:
    checker = JobFileChecker(data.paths)
    assert checker.text(DAILY) is None
    path = data.paths.routines / "daily.md"
    path.write_bytes(b"\xef\xbb\xbfa\r\n\xff\n")
    text = checker.text(DAILY)
    assert text is not None
    assert text.encode("utf-8", "surrogateescape") == path.read_bytes()
    assert checker.read(DAILY, text).problems == ("routines/daily.md:2: is not UTF-8 text",)
    assert "larger than" in checker.read(DAILY, "x" * 1_000_001).problems[0]


def test_a_file_that_cannot_be_read_is_not_taken_for_missing(data: DataDirectory) -> None:
    (data.paths.routines / "daily.md").mkdir()
    with pytest.raises(Unreadable):
        JobFileChecker(data.paths).text(DAILY)


def test_other_files_with_an_id_are_found_even_if_they_are_wrong(data: DataDirectory) -> None:
    def write(name: str, text: str) -> Path:
        path = data.paths.routines / name
        path.write_text(text)
        return path

    checker = JobFileChecker(data.paths)
    write("daily.md", GOOD)
    write("other.md", GOOD.replace("id: daily", "id: other"))
    assert checker.others_with(DAILY, "daily") == []
    write("wrong.md", GOOD.replace("---\nPlan", "late: x\n---\nPlan"))
    assert checker.others_with(DAILY, "daily") == ["routines/wrong.md"]
    assert checker.others_with(JobFile(JobFolder.REMINDERS, "x.md"), "daily") == []
