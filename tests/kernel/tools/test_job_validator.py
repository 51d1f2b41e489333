"""Jobs and skills that the agent writes are right, and may do no more than the agent itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.job_checker import JobFileChecker
from ollim_bot.kernel.tools.guards import JobValidator
from ollim_bot.kernel.tools.registry import MAIN_TOOLS
from ollim_bot.kernel.values.initiative import Setter
from ollim_bot.kernel.values.permissions import Pattern
from ollim_bot.kernel.values.ports import ToolCall
from ollim_bot.kernel.values.taint import Taint

DAILY = '---\nid: daily\ncron: "0 9 * * *"\n---\nPlan the day.\n'
OWNERS = """\
---
id: own
cron: "0 9 * * *"
background: true
allowed-tools: ["Bash(git log)"]
---
Look.
"""
MAIL = "---\nname: mail\ndescription: Reads mail.\n---\nRead it.\n"


@dataclass
class ValidatorScene:
    """A data directory, and the validator of writes to it."""

    root: Path
    allowed: list[str] = field(default_factory=lambda: list(MAIN_TOOLS))
    named: list[tuple[str, Sequence[str]]] = field(default_factory=list)

    def patterns(self) -> Sequence[Pattern]:
        return [Pattern.of(text) for text in self.allowed]

    taint: Taint = field(default_factory=Taint)

    def refused(self, tool: str, setter: Setter | None = None, **arguments: object) -> str:
        checker = JobFileChecker(DataPaths(self.root))
        validator = JobValidator(
            self.root, checker, self.patterns, lambda job, skills: self.named.append((job, skills))
        )
        return validator(ToolCall(tool, arguments), setter, self.taint) or ""

    def write(self, path: str, content: str, setter: Setter | None = None) -> str:
        return self.refused("Write", setter, file_path=path, content=content)

    def edit(self, path: str, old: str, new: str) -> str:
        return self.refused("Edit", file_path=path, old_string=old, new_string=new)


@pytest.fixture
def scene(tmp_path: Path) -> ValidatorScene:
    root = tmp_path / "data"
    prepare_data_directory(DataPaths(root))
    (root / "routines/daily.md").write_text(DAILY)
    (root / "routines/own.md").write_text(OWNERS)
    (root / "skills/mail").mkdir()
    (root / "skills/mail/SKILL.md").write_text(MAIL)
    return ValidatorScene(root)


def routine(*lines: str, job_id: str = "new") -> str:
    more = "".join(f"{line}\n" for line in lines)
    return f'---\nid: {job_id}\ncron: "0 8 * * *"\n{more}---\nDo it.\n'


def skill(*lines: str) -> str:
    return "---\nname: new\ndescription: x\n" + "".join(f"{line}\n" for line in lines) + "---\nx\n"


def test_right_jobs_and_skills_and_all_other_files_pass(scene: ValidatorScene) -> None:
    reminder = "---\nid: r1\nrun-at: 2026-11-16T09:00\n---\nCall.\n"
    webhook = "---\nid: w1\nfields: {type: object}\n---\nLook.\n"
    assert scene.write("routines/new.md", routine("background: true")) == ""
    assert scene.write("routines/daily.md", DAILY.replace("9", "10")) == ""
    assert scene.write("reminders/r.md", reminder) == ""
    assert scene.write("webhooks/w.md", webhook) == ""
    assert scene.write("skills/new/SKILL.md", skill("allowed-tools: [WebSearch]")) == ""
    assert scene.edit("routines/daily.md", "Plan the day", "Plan it") == ""
    assert scene.write("notes/plan.md", "no job at all") == ""
    assert scene.write("routines/old/plan.md", "no job at all") == ""
    assert scene.refused("Read", file_path="routines/daily.md") == ""
    assert scene.refused("Write", content="x") == ""


def test_a_wrong_webhook_is_refused_with_all_that_is_wrong(scene: ValidatorScene) -> None:
    lines = (
        *("id: Build", "fields: {type: object, properties: {title: {type: text, pattern: a}}}"),
        *("pick: {titel: /issue/title, body: issue}", "on: []", "auth: magic", "secret-env: LANG"),
        *("deliver: loud", "cron: 0 8 * * *", "nag: 10m x 4", "background: false"),
        *("disallowed-tools: [Bash]", "allowed-tools: [Bash]"),
    )
    reason = scene.write("webhooks/w.md", "\n".join(["---", *lines, "---", "Look.", ""]))
    _, *problems = reason.splitlines()
    assert sorted(problem.split(": ")[1] for problem in problems) == [
        *("allowed-tools", "allowed-tools", "auth", "background", "cron", "deliver"),
        *("disallowed-tools", "fields", "id", "nag", "on", "pick", "secret-env"),
    ]
    assert "webhooks/w.md:3: fields: properties.title.type: takes one or a list of" in reason
    assert "properties.title.pattern: is not used here" in reason
    assert not (scene.root / "webhooks/w.md").exists()


@pytest.mark.same_fixtures
@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        ("routines/new.md", "Plan.", "routines/new.md:1: the first line must be --- alone"),
        ("routines/new.md", routine("cron: x"), "routines/new.md:4: cron stands here and in line"),
        ("routines/new.md", routine("isolated: true"), "routines/new.md:4: isolated: is for back"),
        ("routines/new.md", routine("late: maybe"), "it takes one of run, skip, tell"),
        ("routines/new.md", routine("disallowed-tools: [Bash]"), "disallowed-tools"),
        ("reminders/r.md", "---\nid: r\n---\nx\n", "reminders/r.md: run-at: is missing"),
        ("webhooks/w.md", "---\nid: w\nfields: {}\n---\nx\n", "webhooks/w.md:3: fields: "),
        ("skills/new/SKILL.md", "x", "skills/new/SKILL.md:1: the first line"),
        ("skills/new/SKILL.md", "---\nname: new\n---\nx\n", "description: is missing"),
        ("skills/other/SKILL.md", skill(), "SKILL.md:2: name: must be the name of its folder, ot"),
        ("skills/new/SKILL.md", skill("allowed-tools: 3"), "it takes a list"),
        ("skills/new/SKILL.md", skill("hooks: {}"), "SKILL.md:4: hooks: would make the engine"),
    ],
)
def test_a_wrong_file_is_refused_with_file_line_and_what_is_right(
    scene: ValidatorScene, path: str, content: str, words: str
) -> None:
    reason = scene.write(path, content)
    assert words in reason
    assert reason.startswith("Nothing was changed.")
    assert not (scene.root / path).exists()


def test_all_that_is_wrong_is_said_at_once(scene: ValidatorScene) -> None:
    reason = scene.write("routines/new.md", routine("late: x", "model: gpt", "must: 3"))
    assert len(reason.splitlines()) == 4


def test_the_agent_gives_a_job_no_more_through_a_skill(scene: ValidatorScene) -> None:
    wide = "---\nname: wide\ndescription: x\nallowed-tools: [Bash(make all)]\n---\nx\n"
    (scene.root / "skills/wide").mkdir()
    (scene.root / "skills/wide/SKILL.md").write_text(wide)
    job = routine("background: true", "skills: [mail, wide]")
    assert "skills: `Bash(make all)` goes beyond" in scene.write("routines/new.md", job)
    (scene.root / "routines/new.md").write_text(job)
    assert scene.edit("routines/new.md", "Do it", "Do that") == ""


@pytest.mark.parametrize("kind", ["missing", "broken", "../mail", "Mail"])
def test_the_agent_names_no_skill_that_cannot_be_judged_yet(
    scene: ValidatorScene, kind: str
) -> None:
    (scene.root / "skills/broken").mkdir()
    (scene.root / "skills/broken/SKILL.md").write_text("---\nname: broken\n---\nx\n")
    job = routine("background: true", f'skills: [mail, "{kind}"]')
    words = "does not load" if kind == "broken" else "is not there"
    assert f"routines/new.md: skills: {kind} {words}" in scene.write("routines/new.md", job)
    assert scene.named == []
    # A skill that was there and is gone keeps nobody from mending the rest.
    (scene.root / "routines/new.md").write_text(job)
    assert scene.edit("routines/new.md", "Do it", "Do that") == ""


def test_what_the_agent_names_is_noted_before_it_is_written(scene: ValidatorScene) -> None:
    with_mail = routine("background: true", "skills: [mail]")
    assert scene.write("routines/new.md", with_mail) == ""
    assert scene.named == [("routine:new", ["mail"])]
    (scene.root / "routines/new.md").write_text(with_mail)
    assert scene.edit("routines/new.md", "Do it", "Do that") == ""
    assert "id: daily is that of" in scene.edit("routines/new.md", "id: new", "id: daily")
    assert len(scene.named) == 1
    # Under another id it is another job.
    assert scene.edit("routines/new.md", "id: new", "id: newer") == ""
    assert scene.named[1:] == [("routine:newer", ["mail"])]
    check = "---\nid: r1\nrun-at: 2026-11-16T09:00\nbackground: true\nskills: [mail]\n---\nCall.\n"
    (scene.root / "reminders/r.md").write_text(check)
    parent = "max-chain: 2\nchain-depth: 1\nchain-parent: r0\n"
    assert scene.edit("reminders/r.md", "skills:", f"{parent}skills:") == ""
    assert scene.named[2:] == [("reminder:r0", ["mail"])]


def test_it_is_the_result_of_an_edit_that_counts(scene: ValidatorScene) -> None:
    assert "minute" in scene.edit("routines/daily.md", "0 9 *", "99 9 *")
    assert "exactly so" in scene.edit("routines/daily.md", "0 7 *", "0 8 *")
    (scene.root / "routines/broken.md").write_text(routine("late: x", job_id="broken"))
    assert scene.edit("routines/broken.md", "late: x", "late: run") == ""
    assert "late" in scene.edit("routines/broken.md", "Do it", "Do that")


def test_an_edit_that_the_engine_would_read_loosely_is_refused(scene: ValidatorScene) -> None:
    (scene.root / "routines/daily.md").write_text(DAILY.replace("Plan the day.", "“Plan”"))
    assert "exactly so" in scene.edit("routines/daily.md", '"Plan"', "x")


def test_bytes_that_are_no_text_are_refused(scene: ValidatorScene) -> None:
    (scene.root / "routines/daily.md").write_bytes(DAILY.encode() + b"\xff\n")
    assert "routines/daily.md:6: is not UTF-8 text" in scene.edit("routines/daily.md", "day", "x")
    assert scene.write("routines/daily.md", DAILY) == ""


def test_what_cannot_be_read_is_not_written(scene: ValidatorScene) -> None:
    (scene.root / "routines/folder.md").mkdir()
    assert "cannot be read" in scene.edit("routines/folder.md", "a", "b")


def test_a_second_file_with_an_id_is_refused_and_names_the_first(scene: ValidatorScene) -> None:
    reason = scene.write("routines/renamed.md", DAILY)
    assert "daily is that of routines/daily.md already" in reason
    assert scene.write("reminders/r.md", "---\nid: daily\nrun-at: 2026-11-16T09:00\n---\nx\n") == ""
    assert "routines/daily.md" in scene.edit("routines/own.md", "id: own", "id: daily")


def test_a_file_whose_id_was_doubled_before_can_still_be_mended(scene: ValidatorScene) -> None:
    (scene.root / "routines/again.md").write_text(DAILY)
    assert scene.edit("routines/again.md", "Plan the day", "Plan") == ""
    assert scene.edit("routines/again.md", "id: daily", "id: again") == ""


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ('["Bash(git log)"]', "routines/new.md:4: allowed-tools: `Bash(git log)` goes beyond"),
        ('["Read(./**)"]', "Allowed: `Read(./**.md)`, `Read(./downloads/**)`, or less"),
        ("[NotebookEdit]", "Leave it out; only the owner can add more, by hand."),
        ("[Bash]", "would allow every command"),
        ('["Read(./notes/*.md)", Write]', "`Write` goes beyond"),
    ],
)
def test_a_job_may_do_no_more_than_the_conversation(
    scene: ValidatorScene, tools: str, words: str
) -> None:
    assert words in scene.write("routines/new.md", routine(f"allowed-tools: {tools}"))


def test_a_skill_may_do_no_more_either(scene: ValidatorScene) -> None:
    reason = scene.write("skills/new/SKILL.md", skill('allowed-tools: ["Bash(rm *)"]'))
    assert "skills/new/SKILL.md:4: allowed-tools: `Bash(rm *)` goes beyond" in reason


def test_what_the_owner_allows_now_counts_now(scene: ValidatorScene) -> None:
    content = routine("background: true", 'allowed-tools: ["Bash(git log)"]')
    scene.allowed.append("Bash(git *)")
    assert scene.write("routines/new.md", content) == ""
    scene.allowed.pop()
    assert "goes beyond" in scene.write("routines/new.md", content)


def test_what_the_owner_has_allowed_a_job_stays_in_that_file_only(scene: ValidatorScene) -> None:
    assert scene.edit("routines/own.md", "Look.", "Look twice.") == ""
    assert scene.write("routines/own.md", OWNERS.replace("9", "10")) == ""
    assert "goes beyond" in scene.edit("routines/own.md", "git log", "git push")
    assert "goes beyond" in scene.write("routines/copy.md", OWNERS.replace("id: own", "id: copy"))


def test_what_stood_in_a_file_that_was_wrong_otherwise_stays_too(scene: ValidatorScene) -> None:
    (scene.root / "routines/own.md").write_text(OWNERS.replace("cron", "late: x\ncron"))
    assert scene.edit("routines/own.md", "late: x\n", "late: run\n") == ""


SETTER = Setter("routine:daily:2026-11-16T08:00:00Z", "routine:daily", allow_ping=True)
OWN = "set-by: routine:daily"


def reminder(*lines: str, job_id: str = "r1") -> str:
    more = "".join(f"{line}\n" for line in lines)
    return f"---\nid: {job_id}\nrun-at: 2026-11-16T09:00\n{more}---\nCall.\n"


@pytest.mark.parametrize(
    ("path", "content", "reason"),
    [
        ("reminders/a.md", reminder(), "needs the line `set-by: routine:daily`"),
        ("reminders/a.md", reminder(OWN, "must: true"), "must: is only for what the owner asked"),
        ("routines/a.md", routine(OWN), "set-by: is for background jobs only"),
        ("webhooks/w.md", "---\nid: w\nfields: {type: object}\n---\nx\n", "needs the line"),
        ("reminders/order.md", reminder("description: Now!", job_id="o"), "the owner asked for"),
        ("routines/daily.md", DAILY.replace("0 9", "* *"), "the owner asked for"),
        ("reminders/bots.md", reminder("must: false", job_id="b"), "set-by: only the program"),
        ("reminders/paused.md", reminder(OWN, job_id="p"), "enabled: it was paused"),
        ("reminders/a.md", reminder(OWN, "max-chain: 1000"), "more than 9 follow-ups"),
    ],
)
def test_a_background_run_writes_only_what_says_that_it_did(
    scene: ValidatorScene, path: str, content: str, reason: str
) -> None:
    (scene.root / "reminders/order.md").write_text(reminder(job_id="o"))
    (scene.root / "reminders/bots.md").write_text(reminder(OWN, job_id="b"))
    (scene.root / "reminders/paused.md").write_text(reminder(OWN, "enabled: false", job_id="p"))
    assert reason in scene.write(path, content, setter=SETTER)


def test_what_a_background_run_may_write_passes(scene: ValidatorScene) -> None:
    (scene.root / "reminders/bots.md").write_text(reminder(OWN, job_id="b"))
    (scene.root / "routines/check.md").write_text(routine("background: true", job_id="c"))
    assert scene.write("reminders/a.md", reminder(OWN), setter=SETTER) == ""
    assert scene.write("routines/a.md", routine(OWN, "background: true"), setter=SETTER) == ""
    assert scene.write("reminders/bots.md", reminder(OWN, "late: skip", job_id="b"), SETTER) == ""
    assert scene.write("notes/a.md", "---\n", setter=SETTER) == ""
    shorter = routine("background: true", "thinking: false", job_id="c")
    assert scene.write("routines/check.md", shorter, setter=SETTER) == ""
    silent = replace(SETTER, allow_ping=False)
    assert "this run may not ping" in scene.write("reminders/a.md", reminder(OWN), silent)
    assert scene.write("reminders/a.md", reminder(OWN, "allow-ping: false"), silent) == ""


def test_the_agent_cannot_take_the_mark_of_untrusted_text_from_a_job(scene: ValidatorScene) -> None:
    mark = "untrusted: web page"
    (scene.root / "reminders/page.md").write_text(reminder(mark, OWN, job_id="u"))
    for setter in (None, SETTER):
        for text in (reminder(OWN, job_id="u"), reminder("untrusted: x", OWN, job_id="u")):
            refusal = scene.write("reminders/page.md", text, setter=setter)
            assert "untrusted: the text comes from untrusted content, and only the" in refusal
    assert scene.edit("reminders/page.md", "Call.", "Call Ann.") == ""


def test_in_the_conversation_the_agent_neither_makes_nor_takes_the_mark(
    scene: ValidatorScene,
) -> None:
    (scene.root / "reminders/bots.md").write_text(reminder(OWN, job_id="b"))
    (scene.root / "reminders/broken.md").write_text(reminder(OWN, "must: true", job_id="x"))
    mark = "set-by: only the program and the owner's hand"
    assert mark in scene.write("reminders/new.md", reminder(OWN))
    assert mark in scene.write("reminders/bots.md", reminder(job_id="b"))
    assert mark in scene.edit("reminders/bots.md", OWN, "set-by: routine:other")
    assert mark in scene.edit("reminders/broken.md", f"{OWN}\n", "")
    assert scene.edit("reminders/bots.md", "Call.", "Call Ann.") == ""
    assert scene.edit("reminders/broken.md", "must: true\n", "") == ""


PAGE = "untrusted: web page"
BUTTON = "leave it out. The owner can press “Make sure it comes” on the card of the reminder"


@pytest.mark.parametrize(
    ("path", "content", "reason"),
    [
        ("reminders/a.md", reminder(PAGE, "must: true"), f"must: {{}}; {BUTTON}"),
        ("reminders/a.md", reminder(), "untrusted: you have read it, so it needs the line"),
        ("reminders/o.md", reminder("must: true", "nag: 2m x 8", job_id="o"), "nag: {}; leave it"),
        ("reminders/o.md", reminder("must: true", PAGE, job_id="other"), f"must: {{}}; {BUTTON}"),
        ("routines/daily.md", DAILY.replace("cron", "must: true\ncron"), "must: {}; leave it as"),
    ],
)
def test_a_turn_that_has_read_text_of_others_writes_no_order(
    scene: ValidatorScene, path: str, content: str, reason: str
) -> None:
    (scene.root / "reminders/o.md").write_text(reminder("must: true", job_id="o"))
    scene.taint = Taint(("web page",))
    why = "you have read a web page, so only the owner can ask for this"
    assert reason.format(why) in scene.write(path, content)


def test_a_turn_that_has_read_text_of_others_writes_what_may_be_held_back(
    scene: ValidatorScene,
) -> None:
    (scene.root / "reminders/o.md").write_text(reminder("must: true", job_id="o"))
    scene.taint = Taint(("web page",))
    assert scene.write("reminders/a.md", reminder(PAGE)) == ""
    assert scene.write("reminders/a.md", reminder(PAGE, "max-chain: 3", "must: false")) == ""
    assert scene.edit("reminders/o.md", "Call.", "Call Ann.") == ""
    assert scene.write("routines/new.md", routine()) == ""
