"""The files of a bot move with it, and commands see to them on machines where no bot runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.standby.scene import StandbyScene
from tests.terminal import Terminal

JOB = "---\nid: call\nrun-at: 2030-05-05T10:00:00+00:00\n---\nCall mum.\n"


def jobs(terminal: Terminal) -> list[str]:
    return sorted(path.name for path in terminal.paths.reminders.glob("*.md"))


def kept(terminal: Terminal) -> list[Path]:
    return [path for path in terminal.paths.set_aside.rglob("*") if path.is_file()]


@pytest.mark.real_process
@pytest.mark.usefixtures("postgres")
def test_files_move_to_the_server_to_another_machine_and_back(scene: StandbyScene) -> None:
    desk = scene.desk
    desk.write("reminders/call.md", JOB)
    desk.write("USER.md", "Ada likes tea.")
    scene.init()
    assert "All files are" in desk.done("standby", "status")
    scene.use("shelf")
    shelf = scene.machine("shelf")
    shelf.write("USER.md", "Another person.")
    told = shelf.done("standby", "join", "--from", str(scene.file))
    assert "by hand" in told
    assert shelf.paths.user.read_text() == "Ada likes tea."
    assert jobs(shelf) == ["call.md"]
    [other] = kept(shelf)
    assert other.read_text() == "Another person."
    facts = shelf.json("standby", "status")["files"]
    assert [each.endswith("/USER.md") for each in facts["set_aside"]] == [True]
    assert facts["unlike"] == []

    # No bot runs: each command leads for as long as its change takes.
    shelf.done("reminder", "add", "Feed the cat", "--in", "2h")
    shelf.done("reminder", "cancel", "call")
    [cat] = jobs(shelf)
    assert "2 files not as stored" in desk.done("standby", "status")
    scene.use("desk")
    desk.done("config", "set", "timezone", "Europe/Paris")
    assert jobs(desk) == [cat]
    assert kept(desk) == []

    desk.write("tasks.md", "- [ ] Walk")
    scene.use("shelf")
    with scene.leading("shelf", shelf):
        pass
    assert "back. From the next start" in shelf.done("standby", "leave", "--yes")
    assert jobs(shelf) == [cat]
    assert not shelf.paths.files_current.exists()


def test_an_edit_made_while_no_bot_ran_is_stored_by_the_next_command(scene: StandbyScene) -> None:
    scene.init()
    desk = scene.desk
    desk.write("reminders/call.md", JOB)
    assert "1 file not as stored: reminders/call.md" in desk.done("standby", "status")
    desk.done("config", "set", "timezone", "Europe/Paris")
    assert "All files are here." in desk.done("standby", "status")
    assert jobs(desk) == ["call.md"]
    assert kept(desk) == []
