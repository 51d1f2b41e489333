"""Headings of `tasks.md` are lists, and items below an item are parts of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from devtools.doubles.journal import RecordingJournal
from tests.terminal import SUNDAY

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.task_file import TaskFile
from ollim_bot.kernel.values.tasks import nested

FILE = """\
- [ ] call mum
# Home ##
- [ ] plan the party (due 2026-11-20)
  for Ada
  - [ ] buy a cake
    - [ ] ask what kind
  - [x] send invitations
- [ ] water the ferns

## Shopping
* [x] tea

some words
"""


@pytest.fixture
def tasks(tmp_path: Path) -> TaskFile:
    paths = DataPaths(tmp_path)
    paths.locks.mkdir(parents=True)
    paths.tasks.write_text(FILE)
    return TaskFile(paths, RecordingJournal(), lambda: SUNDAY)


def titles(tasks: TaskFile, *names: str) -> list[str]:
    return [task.title for task in tasks.tasks(*names, with_done=True)]


def test_each_heading_is_a_list(tasks: TaskFile) -> None:
    assert list(tasks.lists()) == ["tasks.md", "Home", "Shopping"]
    assert titles(tasks, "shopping") == titles(tasks, "shopping list") == ["tea"]
    assert titles(tasks, "Home")[0] == "plan the party"
    assert len(titles(tasks, "tasks.md")) == len(titles(tasks)) == 7
    with pytest.raises(WrongInput, match=r"no list Work\. There are: tasks\.md, Home, Shopping\."):
        tasks.tasks("Work")


def test_items_below_an_item_are_its_parts(tasks: TaskFile) -> None:
    shown = [(depth, task.title) for depth, task in nested(tasks.tasks())]
    assert shown == [
        (0, "call mum"),
        (0, "plan the party"),
        (1, "buy a cake"),
        (2, "ask what kind"),
        (0, "water the ferns"),
    ]
    # A part whose task is not listed stands for itself.
    assert [depth for depth, _ in nested(tasks.tasks()[2:])] == [0, 1, 0]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("", "- [ ] water the ferns\n", "- [ ] water the ferns\n- [ ] milk\n"),
        ("home", "- [ ] water the ferns\n", "- [ ] water the ferns\n- [ ] milk\n"),
        ("Shopping", "* [x] tea\n", "* [x] tea\n- [ ] milk\n"),
        ("the boat", "some words\n", "some words\n\n## the boat\n- [ ] milk\n"),
    ],
)
def test_a_new_task_goes_to_its_list_and_nothing_else_moves(
    tasks: TaskFile, tmp_path: Path, name: str, before: str, after: str
) -> None:
    task = tasks.add("milk", list_name=name)
    assert DataPaths(tmp_path).tasks.read_text() == FILE.replace(before, after)
    assert task.list_name.casefold() == (name or "Home").casefold()
    assert tasks.get(task.id) == task


def test_the_first_list_makes_the_file(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path)
    paths.locks.mkdir(parents=True)
    tasks = TaskFile(paths, RecordingJournal(), lambda: SUNDAY)
    tasks.add("milk", list_name="Shopping")
    tasks.add("bread", list_name="shopping")
    assert paths.tasks.read_text() == "# Shopping\n- [ ] milk\n- [ ] bread\n"


def test_a_heading_without_tasks_is_a_list_too(tasks: TaskFile, tmp_path: Path) -> None:
    DataPaths(tmp_path).tasks.write_text("# Empty\n\n# Home\n- [ ] a\n")
    tasks.add("milk", list_name="empty")
    assert DataPaths(tmp_path).tasks.read_text() == "# Empty\n- [ ] milk\n\n# Home\n- [ ] a\n"


def test_an_id_follows_its_task_to_another_list(tasks: TaskFile, tmp_path: Path) -> None:
    (ferns,) = [task for task in tasks.tasks() if "ferns" in task.title]
    line = "- [ ] water the ferns\n"
    moved = FILE.replace(line, "").replace("some words\n", f"{line}some words\n")
    DataPaths(tmp_path).tasks.write_text(moved)
    assert tasks.get(ferns.id).section == "Shopping"
