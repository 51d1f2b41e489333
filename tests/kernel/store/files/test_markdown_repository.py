"""Job files: a bad file does not affect other files, and what a person wrote stays."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from devtools.doubles.disks import failing_at
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.kernel.store.files.data_directory import DataDirectory

from ollim_bot.kernel.base.errors import (
    BadJob,
    DuplicateId,
    EditRefused,
    NotFound,
    Unreadable,
    WriteFailed,
)
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.jobs import JobSpec, Late, Model, ReportMode, Routine

GOOD = '---\nid: good0001\ncron: "0 9 * * *"\n---\nstay\n'


def routine(job_id: str = "a1b2c3d4", message: str = "Plan the day") -> Routine:
    return Routine(JobSpec(id=job_id, message=message), Cron.parse("30 8 * * 1-5"))


def write(data: DataDirectory, name: str, text: str) -> Path:
    path = data.paths.routines / name
    path.write_text(text, newline="")
    return path


def problems(data: DataDirectory) -> list[str]:
    return list(data.open().routines.report().problems)


def fields(*lines: str) -> str:
    added = "".join(f"{line}\n" for line in lines)
    return f"---\nid: a1b2c3d4\ncron: '0 9 * * *'\n{added}---\ndo it\n"


def test_a_new_file_has_only_what_differs_from_the_defaults(data: DataDirectory) -> None:
    path = data.open().routines.add(routine())
    assert path == data.paths.routines / "plan-the-day.md"
    assert path.read_text() == '---\nid: a1b2c3d4\ncron: "30 8 * * 1-5"\n---\nPlan the day\n'
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert data.journal.notes == [(path, "add routine a1b2c3d4")]


def test_a_taken_name_gets_a_number_and_text_without_letters_the_id(data: DataDirectory) -> None:
    repository = data.open().routines
    names = [repository.add(routine(f"id-{n}")).name for n in range(3)]
    assert names == ["plan-the-day.md", "plan-the-day-2.md", "plan-the-day-3.md"]
    assert repository.add(routine("id-9", "🌱!")).name == "id-9.md"
    assert repository.add(routine("id-8", "水を飲む")).name == "水を飲む.md"


def test_a_file_of_a_person_is_never_replaced_by_a_new_job(data: DataDirectory) -> None:
    theirs = write(data, "plan-the-day.md", "no job at all")
    assert data.open().routines.add(routine()).name == "plan-the-day-2.md"
    assert theirs.read_text() == "no job at all"


FULL = """\
---
# Weekdays only.
id: a1b2c3d4
cron: "30 8 * * 1-5"   # before work
mood: calm
allowed_tools:
  - Read
background: true
---

Plan the day.
"""


def test_a_changed_field_changes_one_line_of_the_file(data: DataDirectory) -> None:
    path = write(data, "mine.md", FULL)
    changed = data.open().routines.amend("a1b2c3d4", {"cron": "0 9 * * *"})
    assert str(changed.rhythm) == "0 9 * * *"
    assert path.read_text() == FULL.replace('"30 8 * * 1-5"', '"0 9 * * *"')
    assert data.journal.notes == [(path, "edit routine a1b2c3d4")]


def test_a_change_is_made_to_what_the_file_holds_now(data: DataDirectory) -> None:
    write(data, "mine.md", FULL)
    repository = data.open().routines
    repository.all()
    edited = FULL.replace("calm", "brisk").replace("Plan the day.", "Plan the week.")
    path = write(data, "mine.md", edited)
    repository.amend("a1b2c3d4", {"enabled": False})
    assert path.read_text() == edited.replace("true\n", "true\nenabled: false\n")


def test_a_change_that_would_make_the_file_wrong_is_refused(data: DataDirectory) -> None:
    path = write(data, "mine.md", FULL)
    with pytest.raises(BadJob) as caught:
        data.open().routines.amend("a1b2c3d4", {"cron": "61 * * * *", "late": "never"})
    assert len(caught.value.problems) == 2
    assert "routines/mine.md:4: cron:" in str(caught.value)
    assert path.read_text() == FULL
    assert data.journal.notes == []


def test_a_change_can_mend_a_wrong_file(data: DataDirectory) -> None:
    write(data, "mine.md", fields("late: never"))
    assert data.open().routines.amend("a1b2c3d4", {"late": "tell"}).spec.late is Late.TELL


def test_nothing_to_change_writes_nothing(data: DataDirectory) -> None:
    path = write(data, "mine.md", FULL)
    before = path.stat().st_ino
    data.open().routines.amend("a1b2c3d4", {"cron": "30 8 * * 1-5"})
    assert path.stat().st_ino == before
    assert data.journal.notes == []


def test_a_file_that_cannot_be_edited_safely_is_left_alone(data: DataDirectory) -> None:
    path = write(data, "mine.md", '---\n{id: a1b2c3d4, cron: "0 9 * * *"}\n---\nx\n')
    with pytest.raises(EditRefused, match="by hand"):
        data.open().routines.amend("a1b2c3d4", {"late": "run"})
    assert path.read_text().startswith("---\n{id")


def test_an_edit_through_a_link_keeps_the_link(data: DataDirectory, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere.md"
    target.write_text(FULL)
    link = data.paths.routines / "mine.md"
    link.symlink_to(target)
    data.open().routines.amend("a1b2c3d4", {"cron": "0 9 * * *"})
    assert link.is_symlink()
    assert '"0 9 * * *"' in target.read_text()


def test_a_wrong_id_can_be_named_by_its_file(data: DataDirectory) -> None:
    write(data, "broken.md", "no fields")
    with pytest.raises(BadJob, match=r"routines/broken.md:1: the first line must be ---"):
        data.open().routines.get("broken.md")
    data.open().routines.remove("broken.md")
    assert list(data.paths.routines.iterdir()) == []


def test_two_files_with_one_id_are_both_named_and_the_first_is_in_use(data: DataDirectory) -> None:
    write(data, "one.md", FULL)
    write(data, "two.md", FULL)
    write(data, "good.md", GOOD)
    report = data.open().routines.report()
    assert [stored.path.name for stored in report.jobs] == ["good.md", "one.md"]
    (problem,) = report.problems
    assert problem == (
        "routines/one.md and routines/two.md have the same id a1b2c3d4. "
        "Give one of them another id. Until then, routines/one.md is in use."
    )
    for attempt in (data.open().routines.get, data.open().routines.remove):
        with pytest.raises(DuplicateId):
            attempt("a1b2c3d4")
    data.open().routines.remove("two.md")
    assert data.open().routines.get("a1b2c3d4").path.name == "one.md"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        pytest.param("background: yes", "'yes' is not right; it takes true or false", id="flag"),
        pytest.param("model: gpt", "one of opus, sonnet, haiku", id="choice"),
        pytest.param("skills: mail", "a list such as [one, two]", id="list"),
        pytest.param("skills: [[a]]", "a list such as [one, two]", id="list of lists"),
        pytest.param("timezone: Europe/Atlantis", "such as Europe/Berlin", id="zone"),
        pytest.param("timezone: ../../etc/passwd", "such as Europe/Berlin", id="zone path"),
        pytest.param("late: never", "one of run, skip, tell", id="late"),
        pytest.param("description: [a]", "it takes text", id="text"),
        pytest.param("description:", "it takes text", id="no value"),
        pytest.param("model: opus", "is for background jobs only", id="background only"),
        pytest.param("allowed-tools: [Read]", "is for background jobs only", id="tools"),
        pytest.param(
            'allowed-tools: ["Bash(*)"]\nbackground: true',
            "`Bash(*)` would allow every command. Name one, such as `Bash(ollim-bot help)`",
            id="every command",
        ),
        pytest.param("disallowed-tools: [Bash]", "right: allowed-tools, a list", id="restriction"),
        pytest.param("allow-pings: false", "did you mean allow-ping?", id="near restriction"),
        pytest.param("isolatd: true", "did you mean isolated?", id="letter missing"),
        pytest.param("eanbled: false", "did you mean enabled?", id="letters swapped"),
        pytest.param("run-at: 2026-11-16T09:00", "is not a field of a routine", id="other kind"),
    ],
)
def test_a_wrong_field_is_named_with_file_line_and_what_is_right(
    data: DataDirectory, line: str, says: str
) -> None:
    write(data, "wrong.md", fields(line))
    write(data, "good.md", GOOD)
    report = data.open().routines.report()
    assert [stored.item.spec.id for stored in report.jobs] == ["good0001"]
    (problem,) = report.problems
    assert problem.startswith(f"routines/wrong.md:4: {line.partition(':')[0]}: ")
    assert says in problem


def test_all_problems_of_a_file_are_named_at_once(data: DataDirectory) -> None:
    write(data, "wrong.md", "---\nbackground: 3\nlate: never\nallow_ping: no\n---\n")
    assert [problem.partition(": ")[2][:12] for problem in problems(data)] == [
        "background: ",
        "late: 'never",
        "allow-ping: ",
        "id: is missi",
        "cron: is mis",
        "the text und",
    ]


def test_an_unknown_key_is_a_warning_and_the_job_runs(data: DataDirectory) -> None:
    for number, key in enumerate(["on", "1", "true", "~", "x y", "descriptoin", "mood"]):
        job = fields(f"{key}: x").replace("a1b2c3d4", f"id-{number}")
        write(data, f"{number}.md", job)
    report = data.open().routines.report()
    assert len(report.jobs) == 7
    assert not report.problems
    assert "routines/5.md:4: descriptoin: is not a field" in report.warnings[5]
    assert "did you mean description?" in report.warnings[5]


@pytest.mark.parametrize("late", Late)
@pytest.mark.parametrize("line", ["must: true", "kind: dose", "nag: 10m x 4", "mood: good"])
def test_that_what_must_come_is_not_left_out_where_it_is_late_is_a_warning(
    data: DataDirectory, line: str, late: Late
) -> None:
    write(data, "a.md", fields(f"late: {late}\n{line}"))
    warnings = [each for each in data.open().routines.report().warnings if "late" in each]
    said = "routines/a.md:4: late: is read as run, because it must come, however late; remove it"
    is_ignored = late is not Late.RUN and line != "mood: good"
    assert warnings == ([said] if is_ignored else [])


def test_a_number_is_text_where_text_is_wanted(data: DataDirectory) -> None:
    """Eight hexadecimal characters can look like a number to YAML."""
    for written in ("12345678", "1e234567", "0x123456"):
        write(data, "n.md", f"---\nid: {written}\ncron: '0 9 * * *'\ndescription: 2026\n---\nx\n")
        found = data.open().routines.get(written).item
        assert (found.spec.id, found.spec.description) == (written, "2026")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("must: true\nallow-ping: false", "cannot be kept with allow-ping: false"),
        ("kind: dose\nmust: false", "must: cannot be false for a dose"),
        ("max-chain: 1\nchain-depth: 2", "is greater than max-chain"),
        ("max-chain: -1", "a whole number from 0 to 1000"),
        ("max-chain: true", "a whole number from 0 to 1000"),
        ("run_at: 2026-11-16", "such as 2026-11-16T09:00"),
        ("run_at: tomorrow", "such as 2026-11-16T09:00"),
        ("run_at: 2026-02-30T09:00", "such as 2026-11-16T09:00"),
        ("run_at: 0000-01-01T00:00", "such as 2026-11-16T09:00"),
        ("cron: 0 9 * * *", "is not a field of a reminder"),
    ],
)
def test_reminders_are_checked_as_a_whole(data: DataDirectory, line: str, says: str) -> None:
    at = "" if "run_at" in line else "run-at: 2026-11-16T09:00\n"
    (data.paths.reminders / "r.md").write_text(f"---\nid: r1\n{at}{line}\n---\nx\n")
    (problem,) = data.open().reminders.report().problems
    assert says in problem


def clutter(folder: Path) -> None:
    """Everything that may be in a folder of jobs."""
    (folder / "folder.md").mkdir()
    (folder / "nowhere.md").symlink_to("gone")
    (folder / "circle.md").symlink_to("circle.md")
    os.mkfifo(folder / "pipe.md")
    (folder / "binary.md").write_bytes(b"---\n\xff\xfe\n---\n")
    (folder / "empty.md").touch()
    (folder / "huge.md").write_bytes(b"x" * 1_000_001)
    (folder / "nul.md").write_bytes(b"\0" * 100)
    (folder / ".hidden.md").write_text("not looked at")
    (folder / "notes.txt").write_text("not looked at")
    (folder / ("n" * 251 + ".md")).write_text("long name")


def test_whatever_lies_in_the_folder_the_others_are_read(data: DataDirectory) -> None:
    clutter(data.paths.routines)
    write(data, "good.md", GOOD)
    report = data.open().routines.report()
    assert [stored.item.spec.id for stored in report.jobs] == ["good0001"]
    named = {problem.split(":")[0].removeprefix("routines/") for problem in report.problems}
    assert named == {
        *("folder.md", "nowhere.md", "circle.md", "pipe.md", "binary.md", "empty.md"),
        *("huge.md", "nul.md", "n" * 251 + ".md"),
    }


KEYS = st.sampled_from(
    [
        *("id", "cron", "description", "background", "model", "thinking", "isolated"),
        *("update-main-session", "allow_ping", "allowed-tools", "skills", "timezone", "late"),
        *("enabled", "must", "on", "1", "~", "run-at"),
    ]
)
ODD = ["x", "", "[", "{a: 1}", "[1, [2]]", "yes", "true", "~", "1e999", "*a", "&a b", "!!x y", "|"]
VALUES = st.sampled_from(ODD) | st.text(max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(1.5))
@given(
    st.binary(max_size=200)
    | st.lists(st.tuples(KEYS, VALUES), max_size=8).map(
        lambda pairs: ("---\n" + "".join(f"{k}: {v}\n" for k, v in pairs) + "---\nbody").encode(
            "utf-8", "replace"
        )
    )
)
def test_no_job_file_ever_stops_the_others(data: DataDirectory, raw: bytes) -> None:
    (data.paths.routines / "any.md").write_bytes(raw)
    write(data, "good.md", GOOD)
    report = data.open().routines.report()
    assert "good0001" in [stored.item.spec.id for stored in report.jobs]
    assert len(report.jobs) == 2 or report.problems


def test_what_is_gone_is_gone_and_a_missing_folder_is_empty(data: DataDirectory) -> None:
    repository = data.open().routines
    repository.add(routine()).unlink()
    assert list(repository.all()) == []
    data.paths.routines.rmdir()
    assert list(repository.all()) == []
    with pytest.raises(NotFound, match="There is no routine nope"):
        repository.get("nope")


def test_a_folder_that_is_a_file_is_not_taken_for_empty(data: DataDirectory) -> None:
    data.paths.routines.rmdir()
    data.paths.routines.write_text("?")
    with pytest.raises(Unreadable, match="Not a directory"):
        data.open().routines.all()


@pytest.mark.parametrize("step", ["write", "sync", "link"])
def test_a_full_disk_leaves_no_half_of_a_job(data: DataDirectory, step: str) -> None:
    with pytest.raises(WriteFailed, match="No space left"):
        data.open(failing_at(step)).routines.add(routine())
    assert list(data.paths.routines.iterdir()) == []
    assert data.journal.notes == []


def test_what_a_killed_add_left_behind_is_never_written_through(data: DataDirectory) -> None:
    """After a kill between link and unlink, a new file is a hard link of the temporary one."""
    path = data.open().routines.add(routine())
    before = path.read_bytes()
    os.link(path, path.with_name(f".{path.name}.tmp"))
    with pytest.raises(WriteFailed):
        data.open(failing_at("sync")).routines.amend("a1b2c3d4", {"late": "run"})
    assert path.read_bytes() == before


def test_text_that_no_file_can_hold_is_refused(data: DataDirectory) -> None:
    with pytest.raises(BadJob, match="not a character"):
        data.open().routines.add(routine(message="\udc80 half a character"))


def test_a_job_too_large_to_be_read_is_not_written(data: DataDirectory) -> None:
    with pytest.raises(BadJob, match="too large"):
        data.open().routines.add(routine(message="x" * 1_000_000))
    assert list(data.paths.routines.iterdir()) == []


def test_background_fields_survive_the_file(data: DataDirectory) -> None:
    spec = JobSpec(
        id="b1",
        message="Check the mail",
        background=True,
        model=Model.HAIKU,
        thinking=False,
        isolated=True,
        update_main_session=ReportMode.ALWAYS,
        allow_ping=False,
        allowed_tools=("Bash(ollim-bot tasks *)", "Read(./**.md)"),
    )
    path = data.open().routines.add(replace(routine(), spec=spec))
    assert 'allowed-tools: ["Bash(ollim-bot tasks *)", "Read(./**.md)"]' in path.read_text()
    assert data.open().routines.get("b1").item.spec == spec
