"""Tasks at Google: the task list contract, dates without zones, pages and faults."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from devtools.doubles.tasks import TaskListContract
from devtools.localdiscord.faults import AnswerLost
from devtools.localgoogle.protocol import RawAnswer, Refusal
from tests.features.google.scene import GoogleScene, google_scene
from tests.terminal import Terminal

from ollim_bot.features.google.google_tasks import LIST_IN_USE, GoogleTasks, connected_tasks
from ollim_bot.features.google.google_values import SCOPES, GoogleService
from ollim_bot.kernel.base.errors import (
    GoogleRefused,
    OllimError,
    SignInNeeded,
    TaskNotFound,
    Unreachable,
)
from ollim_bot.kernel.values.ports import TaskList

TASKS = "/tasks/v1/lists/@default/tasks"


class TestGoogleTasks(TaskListContract):
    @pytest.fixture(autouse=True)
    def _scene(self, tmp_path: Path) -> Iterator[None]:
        with google_scene(tmp_path / "data") as scene:
            scene.connect()
            self.scene = scene
            yield

    def make(self) -> TaskList:
        return GoogleTasks(self.scene.client())


@pytest.fixture
def tasks(connected: GoogleScene) -> GoogleTasks:
    return GoogleTasks(connected.client())


def test_a_listing_costs_one_call(connected: GoogleScene, tasks: GoogleTasks) -> None:
    connected.google.tasks.add("water")
    assert [task.title for task in tasks.tasks()] == ["water"]
    assert len(connected.google.requests) == 1


@pytest.mark.parametrize("due", ["2026-11-20T00:00:00.000Z", "2026-11-20T00:00:00Z"])
def test_a_due_date_is_the_same_date_in_every_zone(
    connected: GoogleScene, tasks: GoogleTasks, due: str
) -> None:
    connected.google.tasks.add("water", due=due)
    assert tasks.tasks()[0].due == date(2026, 11, 20)
    tasks.add("other", date(2026, 12, 31))
    sent = connected.google.requests[-1].body
    assert sent["due"] == "2026-12-31T00:00:00.000Z"


def test_a_long_list_comes_in_pages(connected: GoogleScene, tasks: GoogleTasks) -> None:
    titles = [f"task {number}" for number in range(250)]
    for title in titles:
        connected.google.tasks.add(title)
    assert [task.title for task in tasks.tasks()] == titles
    assert len(connected.google.requests) == 3


def test_done_tasks_that_google_hides_are_shown_when_asked_for(
    connected: GoogleScene, tasks: GoogleTasks
) -> None:
    connected.google.tasks.add("old", status="completed", hidden=True)
    assert list(tasks.tasks()) == []
    assert [task.title for task in tasks.tasks(with_done=True)] == ["old"]


def test_tasks_of_other_lists_are_found_by_name_and_by_id(
    connected: GoogleScene, tasks: GoogleTasks
) -> None:
    connected.google.tasks.add_list("work1", "Work")
    made = connected.google.tasks.add("report", "work1")
    assert tasks.lists() == {LIST_IN_USE: "My Tasks", "Work": "Work"}
    (task,) = tasks.tasks("work")
    assert (task.title, task.list) == ("report", "Work")
    assert tasks.complete(made["id"]).done
    deleted = tasks.delete(made["id"])
    assert tasks.restore(deleted).list == "Work"
    assert [each.title for each in tasks.tasks("Work", with_done=True)] == ["report"]


def test_the_list_in_use_can_be_another(connected: GoogleScene) -> None:
    connected.google.tasks.add_list("work1", "Work")
    tasks = GoogleTasks(connected.client(), "work1")
    tasks.add("report")
    assert [each["title"] for each in connected.google.tasks.tasks["work1"].values()] == ["report"]
    assert tasks.lists() == {LIST_IN_USE: "Work", "My Tasks": "My Tasks"}


def test_odd_tasks_and_ids_are_no_crash(connected: GoogleScene, tasks: GoogleTasks) -> None:
    connected.google.tasks.add("")
    assert tasks.tasks()[0].title == "(no title)"
    with pytest.raises(TaskNotFound):
        tasks.get("../../users/@me/lists")
    wrong = b'{"items": [7, {"id": 5, "due": "soon", "status": []}]}'
    connected.google.next_fail(f"GET {TASKS}", RawAnswer(wrong))
    (task,) = tasks.tasks()
    assert (task.id, task.due, task.done) == ("5", None, False)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Refusal(503), Unreachable),
        (Refusal(403, "insufficientPermissions"), SignInNeeded),
        (Refusal(404, "notFound"), GoogleRefused),
    ],
)
def test_a_fault_that_lasts_is_said_and_nothing_is_done(
    connected: GoogleScene, tasks: GoogleTasks, fault: Refusal, error: type[OllimError]
) -> None:
    connected.google.next_fail(f"* {TASKS}", fault, times=None)
    with pytest.raises(error):
        tasks.tasks()
    with pytest.raises(error):
        tasks.add("water")
    connected.google.mend()
    assert connected.google.tasks.open_titles == []


def test_a_task_whose_answer_was_lost_is_not_added_twice(
    connected: GoogleScene, tasks: GoogleTasks
) -> None:
    connected.google.next_fail(f"POST {TASKS}", AnswerLost())
    with pytest.raises(Unreachable, match="not known whether this was done"):
        tasks.add("water")
    assert connected.google.tasks.open_titles == ["water"]


def test_google_holds_the_tasks_only_if_they_were_connected(scene: GoogleScene) -> None:
    assert connected_tasks(scene.tokens, scene.client()) is None
    scene.connect(SCOPES[GoogleService.MAIL])
    assert connected_tasks(scene.tokens, scene.client()) is None
    scene.connect(SCOPES[GoogleService.TASKS])
    assert connected_tasks(scene.tokens, scene.client()) is not None


@pytest.mark.real_process
def test_the_commands_work_on_google_with_the_file_beside_it(
    connected: GoogleScene, terminal: Terminal
) -> None:
    terminal.write("tasks.md", "- [ ] call mum\n")
    connected.google.tasks.add("water", due="2026-11-17T00:00:00.000Z")
    lines = [line.split("  ", 1)[1].strip() for line in terminal.done("tasks").splitlines()]
    assert lines == ["water · due tomorrow", "call mum · (file)"]
    assert len(connected.google.requests) == 1

    said = terminal.done("tasks", "add", "pay", "rent", "--due", "fri", "--notes", "savings")
    task_id = said.splitlines()[-1].removeprefix("id ")
    assert connected.google.tasks.open_titles == ["water", "pay rent"]
    assert terminal.json("tasks", "show", task_id)["list"] == LIST_IN_USE
    terminal.done("tasks", "update", task_id, "--title", "pay", "--clear", "due")
    assert terminal.done("tasks", "done", task_id) == "Task done: pay.\n"
    assert connected.google.tasks.open_titles == ["water"]
    assert terminal.done("tasks", "delete", task_id) == "Task deleted: pay.\n"
    assert terminal.json("tasks", "lists") == {
        "lists": [LIST_IN_USE, "tasks.md"],
        "titles": {LIST_IN_USE: "My Tasks", "tasks.md": "tasks.md"},
    }
    assert terminal.done("tasks", "lists") == f"{LIST_IN_USE} (My Tasks)\ntasks.md\n"
    (mine,) = terminal.json("tasks", "list", "--list", "tasks.md")["tasks"]
    terminal.done("tasks", "done", mine["id"])
    assert terminal.paths.tasks.read_text() == "- [x] call mum\n"


@pytest.mark.real_process
def test_the_configured_list_is_the_one_in_use(connected: GoogleScene, terminal: Terminal) -> None:
    connected.google.tasks.add_list("work1", "Work")
    terminal.done("config", "set", "google_task_list", "work1")
    terminal.done("tasks", "add", "report")
    assert [each["title"] for each in connected.google.tasks.tasks["work1"].values()] == ["report"]


@pytest.mark.real_process
def test_a_revoked_connection_never_becomes_the_file(
    connected: GoogleScene, terminal: Terminal
) -> None:
    terminal.write("tasks.md", "- [ ] call mum\n")
    connected.google.sign_ins.revoke_everything()
    for words in (("list",), ("add", "water"), ("list", "--json")):
        said = terminal.refused("tasks", *words, code=3)
        assert said.count("\n") == 1
        assert "was revoked or has expired" in said
    assert terminal.paths.tasks.read_text() == "- [ ] call mum\n"
    connected.tokens.forget()
    assert "call mum" in terminal.done("tasks", "list")


@pytest.mark.real_process
def test_what_a_command_did_to_a_task_is_undone_from_the_terminal(
    connected: GoogleScene, terminal: Terminal
) -> None:
    connected.google.tasks.add_list("home", "Home")
    said = terminal.done("tasks", "add", "pay", "rent", "--due", "fri", "--list", "Home")
    task_id = said.splitlines()[1].removeprefix("id ")
    terminal.done("tasks", "update", task_id, "--title", "pay all", "--clear", "due")
    terminal.done("tasks", "done", task_id)
    terminal.done("tasks", "delete", task_id)
    deleted, done, changed, _ = terminal.json("changes")["changes"]
    assert "changed since" in terminal.refused("undo", done["id"], code=1)
    assert terminal.done("undo", deleted["id"]) == "Undone. The task is there again: pay all.\n"
    (back,) = terminal.json("tasks", "list", "--all", "--list", "Home")["tasks"]
    assert (back["title"], back["done"]) == ("pay all", True)
    assert "undone before" in terminal.refused("undo", deleted["id"], code=1)
    undone = terminal.json("changes")["changes"][0]
    assert undone["undoes"] == deleted["id"]
    said = terminal.done("undo", undone["id"])
    assert said == "Undone. The task is gone again: pay all.\n"
    assert terminal.json("tasks", "list", "--all", "--list", "Home")["tasks"] == []
    assert "changed since" in terminal.refused("undo", changed["id"], code=1)
