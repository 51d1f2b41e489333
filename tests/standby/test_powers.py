"""What comes from the database and can act counts on a machine once its owner has seen it there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.features.setup.setup_scene import ScriptedPerson
from tests.standby.scene import StandbyScene
from tests.standby.strangers import put_rows
from tests.terminal import Terminal

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.owner_files import BUNDLED
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot_standby import cli as command
from ollim_bot_standby.file_layout import NO_FILE, FileRows
from ollim_bot_standby.stored_files import adds_power

POLICY = 'main_session: {additional_allowed: ["Bash(python3 *)"]}\n'
NARROW = 'bg_forks: {override: ["Read(./notes.md)"]}\n'
JOB = "---\nid: call\ncron: 0 9 * * *\n---\nCall mum.\n"
WIDE_TOOLS = 'background: true\nallowed-tools: ["Bash(python3 *)"]\n'
WIDE = f"---\nid: wide\ncron: 0 9 * * *\n{WIDE_TOOLS}---\nCount.\n"
SKILL = "---\nname: mail\ndescription: Mail.\n---\nRead the mail.\n"
WIDE_SKILL = SKILL.replace("---\nRead", "allowed-tools: Bash(python3 *)\n---\nRead")
AGENT = "---\nname: reader\ndescription: Reads.\n---\nRead it.\n"
ROUTINE, MAIL, READER = "routines/wide.md", "skills/mail/SKILL.md", ".claude/agents/reader.md"


def with_line(document: str, line: str) -> str:
    return document.replace("---\n", f"---\n{line}\n", 1)


@pytest.mark.parametrize(
    ("path", "here", "new", "waits"),
    [
        pytest.param("tool-policy.yaml", None, POLICY, True, id="policy"),
        pytest.param("tool-policy.yaml", None, f"\ufeff{POLICY}", True, id="policy with a mark"),
        pytest.param("Tool-Policy.yaml", None, POLICY, True, id="policy in other letters"),
        pytest.param("tool-policy.yaml", POLICY, f"# Mine.\n{POLICY}", False, id="same policy"),
        pytest.param("tool-policy.yaml", POLICY, None, False, id="policy removed"),
        pytest.param("tool-policy.yaml", None, NARROW, False, id="policy that only narrows"),
        pytest.param("tool-policy.yaml", NARROW, None, True, id="narrow policy removed"),
        pytest.param("tool-policy.yaml", NARROW, "a: [", True, id="narrow policy made unreadable"),
        pytest.param("routines/call.md", None, JOB, False, id="job"),
        pytest.param(ROUTINE, None, WIDE, True, id="job with tools"),
        pytest.param(ROUTINE, JOB, WIDE, True, id="job gets tools"),
        pytest.param(ROUTINE, WIDE, WIDE.replace("0 9", "0 8"), False, id="other moment"),
        pytest.param(ROUTINE, WIDE, WIDE.replace("Count", "Send"), True, id="other words"),
        pytest.param(ROUTINE, WIDE, WIDE.replace("python3", "ruby"), True, id="other tools"),
        pytest.param(ROUTINE, WIDE, WIDE.replace(WIDE_TOOLS, ""), False, id="no tools any more"),
        pytest.param(ROUTINE, WIDE, None, False, id="job removed"),
        pytest.param(ROUTINE, None, with_line(WIDE, "nonsense: 1"), True, id="wrong job"),
        pytest.param(ROUTINE, None, with_line(JOB, "skills: [mail]"), True, id="job without skill"),
        pytest.param(f"state/last_good/{ROUTINE}", None, WIDE, True, id="kept version of a job"),
        pytest.param("state/last_good/routines/call.md", None, JOB, False, id="of an ordinary job"),
        pytest.param(MAIL, None, SKILL, False, id="skill"),
        pytest.param(MAIL, None, WIDE_SKILL, True, id="skill with tools"),
        pytest.param(MAIL, None, f"{SKILL}!`date`\n", True, id="skill with a command"),
        pytest.param(MAIL, None, with_line(SKILL, "hooks: {}"), True, id="skill with hooks"),
        pytest.param("skills/mail/run.py", None, "print()", True, id="script"),
        pytest.param("skills/mail/run.py", "print()", "print(1)", True, id="script changed"),
        pytest.param("skills/mail/run.py", "print()", None, False, id="script removed"),
        pytest.param("skills/mail/more.md", None, "More.", False, id="words of a skill"),
        pytest.param(READER, None, AGENT, False, id="subagent"),
        pytest.param(
            READER, None, with_line(AGENT, "tools: Bash(python3 *)"), True, id="its tools"
        ),
        pytest.param(READER, None, with_line(AGENT, "hooks: {}"), True, id="its hooks"),
        pytest.param("run.py", None, "print()", True, id="program beside the notes"),
        pytest.param("tasks.md", None, "- [ ] Walk\n", False, id="tasks"),
        pytest.param("state/settings.env", None, "OLLIM_TIMEZONE=UTC\n", False, id="zone"),
        pytest.param("downloads/a.py", None, "print()", False, id="download"),
    ],
)
def test_a_change_waits_if_it_lets_the_bot_do_more(
    tmp_path: Path, path: str, here: str | None, new: str | None, waits: bool
) -> None:
    paths = DataPaths(tmp_path)
    if here is not None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(here)
    content = None if new is None else new.encode()
    assert adds_power(paths, path, content, False) is waits


def test_a_job_has_the_tools_of_its_skill(tmp_path: Path) -> None:
    paths, job = DataPaths(tmp_path), with_line(JOB, "skills: [mail]").encode()
    place = tmp_path / MAIL
    place.parent.mkdir(parents=True)
    place.write_text(SKILL)
    assert not adds_power(paths, "routines/call.md", job, False)
    place.write_text(WIDE_SKILL)
    assert adds_power(paths, "routines/call.md", job, False)


def test_subagents_of_the_package_do_not_wait(tmp_path: Path) -> None:
    for each in BUNDLED.glob("*.md"):
        content = each.read_bytes()
        assert not adds_power(DataPaths(tmp_path), f".claude/agents/{each.name}", content, False)


def stored(scene: StandbyScene, path: str) -> str:
    def content(rows: FileRows) -> str:
        version = rows.current()[path]
        return rows.contents([version.hash])[version.hash].decode()

    return scene.rows_on_server(lambda rows: content(FileRows(rows)))


def touch_rows(terminal: Terminal) -> None:
    """Change something, for which this machine takes over and stores its files."""
    terminal.done("config", "set", "timezone", "Europe/Paris")


def test_a_strange_policy_waits_at_a_take_over_and_ordinary_jobs_come(
    scene: StandbyScene, shelf: Terminal
) -> None:
    put_rows(scene.url, {"tool-policy.yaml": POLICY, "routines/call.md": JOB, ROUTINE: WIDE})
    for _ in range(2):  # The second time this machine was the last to lead.
        touch_rows(shelf)
        assert not shelf.paths.tool_policy.exists()
        assert [each.name for each in shelf.paths.routines.iterdir()] == ["call.md"]
        assert stored(scene, "tool-policy.yaml") == POLICY
    assert f"{ROUTINE}, tool-policy.yaml. Run `ollim-bot standby accept`" in shelf.done(
        "standby", "status"
    )
    assert shelf.json("standby", "status")["files"] == {
        "unlike": [],
        "since": None,
        "waiting": [ROUTINE, "tool-policy.yaml"],
        "set_aside": [],
    }
    told = shelf.done("standby", "accept", "--yes")
    assert "Bash(python3 *)" in told
    assert shelf.paths.tool_policy.read_text() == POLICY
    assert (shelf.paths.root / ROUTINE).read_text() == WIDE
    assert "Nothing waits" in shelf.done("standby", "accept")
    touch_rows(shelf)
    assert stored(scene, "tool-policy.yaml") == POLICY
    assert shelf.json("standby", "status")["files"]["waiting"] == []


def test_the_owners_own_change_on_this_machine_is_not_asked(
    scene: StandbyScene, shelf: Terminal
) -> None:
    put_rows(scene.url, {"tool-policy.yaml": POLICY, ROUTINE: WIDE})
    touch_rows(shelf)
    mine = POLICY.replace("python3", "ruby")
    shelf.write("tool-policy.yaml", mine)
    touch_rows(shelf)
    assert stored(scene, "tool-policy.yaml") == mine
    assert shelf.json("standby", "status")["files"]["waiting"] == [ROUTINE]
    assert "tool-policy" not in shelf.done("standby", "accept", "--yes")
    assert shelf.paths.tool_policy.read_text() == mine


def test_a_version_that_was_not_shown_is_not_taken_in(
    scene: StandbyScene, shelf: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(ScriptedPerson):
        def ask(self, question: str) -> str:
            put_rows(scene.url, {"tool-policy.yaml": POLICY.replace("python3", "ruby")})
            return super().ask(question)

    put_rows(scene.url, {"tool-policy.yaml": POLICY})
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    caller = Caller(shelf.environ, shelf.home, lambda: shelf.now)
    command.accept({}, caller, Slow("y"))
    touch_rows(shelf)
    assert "ruby" not in (
        shelf.paths.tool_policy.read_text() if shelf.paths.tool_policy.exists() else ""
    )
    assert "ruby" in shelf.done("standby", "accept", "--yes")


@pytest.mark.parametrize("answer", ["", "y"])
def test_join_shows_what_can_act_and_asks(
    scene: StandbyScene, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    for path, text in {"tool-policy.yaml": POLICY, ROUTINE: WIDE, "routines/call.md": JOB}.items():
        scene.desk.write(path, text)
    scene.init()
    scene.use("shelf")
    shelf = scene.machine("shelf")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    person = ScriptedPerson(scene.url, answer)
    command.join({}, Caller(shelf.environ, shelf.home, lambda: shelf.now), person)
    shown = " ".join(person.screen.split())
    assert 'additional_allowed: ["Bash(python3 *)"]' in shown
    assert "Count." in shown
    assert "Call mum." not in shown
    assert shelf.paths.tool_policy.exists() is (answer == "y")
    assert (shelf.paths.root / ROUTINE).exists() is (answer == "y")
    assert (shelf.paths.routines / "call.md").read_text() == JOB
    assert shelf.json("standby", "status")["files"]["unlike"] == []


def test_without_a_terminal_join_says_how_to_look_through_it(scene: StandbyScene) -> None:
    scene.desk.write("tool-policy.yaml", POLICY)
    scene.init()
    scene.use("shelf")
    told = scene.machine("shelf").done("standby", "join", "--from", str(scene.file))
    assert "another machine has changed tool-policy.yaml" in told
    assert "`ollim-bot standby accept`" in told


def test_what_is_refused_is_replaced_by_what_is_here(scene: StandbyScene, shelf: Terminal) -> None:
    put_rows(scene.url, {"tool-policy.yaml": POLICY, ROUTINE: WIDE})
    touch_rows(shelf)
    with scene.leading("shelf", shelf):
        assert "machine that leads" in scene.desk.refused("standby", "accept", "--refuse", code=1)
    shelf.done("standby", "accept", "--refuse")
    touch_rows(shelf)
    current = scene.rows_on_server(lambda rows: FileRows(rows).current())
    assert (current["tool-policy.yaml"], current[ROUTINE]) == (NO_FILE, NO_FILE)
    assert not shelf.paths.tool_policy.exists()
    assert "Nothing waits" in shelf.done("standby", "accept")
