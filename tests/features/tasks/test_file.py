"""The tasks of tasks.md: ids that follow a task, edits by other programs, crashes, wrong files."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import pytest
from devtools.doubles.disks import PowerCutDisk, SteppedDisk
from devtools.doubles.tasks import TaskListContract
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.store.files.data_directory import NOW, DataDirectory, QuickDisk

from ollim_bot.kernel.base.errors import StorageError, TaskNotFound, WrongInput
from ollim_bot.kernel.store.task_file import TaskFile
from ollim_bot.kernel.values.ports import Disk, TaskList
from ollim_bot.kernel.values.tasks import Task, TaskChange, TaskIds

DAY = date(2026, 11, 20)


class TaskFileScene:
    """A data directory whose task file is opened again for each use, as by another process."""

    def __init__(self, root: Path) -> None:
        self.data = DataDirectory(root)
        self.path = self.data.paths.tasks
        self.now = NOW

    def open(self, disk: Disk | None = None) -> TaskFile:
        return TaskFile(self.data.paths, self.data.journal, lambda: self.now, disk or QuickDisk())

    def write(self, text: str) -> None:
        self.path.write_text(text)

    def ids(self) -> dict[str, str]:
        """The id of each task, by its title and date."""
        tasks = self.open().tasks(with_done=True)
        return {f"{task.title} {task.due or ''}".strip(): task.id for task in tasks}


@pytest.fixture
def scene(tmp_path: Path) -> TaskFileScene:
    return TaskFileScene(tmp_path / "data")


class TestTaskFile(TaskListContract):
    @pytest.fixture(autouse=True)
    def _in(self, scene: TaskFileScene) -> None:
        self.scene = scene

    def make(self) -> TaskList:
        return self.scene.open()


def test_the_file_is_what_a_person_would_write(scene: TaskFileScene) -> None:
    tasks = scene.open()
    rent = tasks.add("pay the rent", DAY, "from savings")
    tasks.add("water")
    tasks.complete(rent.id)
    assert scene.path.read_text() == (
        "- [x] pay the rent (due 2026-11-20)\n  from savings\n- [ ] water\n"
    )
    assert [message.rpartition(" ")[0] for message in scene.data.journal.messages] == [
        "add task",
        "add task",
        "complete task",
    ]


def test_an_id_follows_its_task_through_moves_dates_notes_and_ticks(scene: TaskFileScene) -> None:
    scene.write("- [ ] a\n- [ ] b (due 2026-11-20)\n- [ ] c\n")
    before = scene.ids()
    scene.write("# New\n* [x] C (due 2027-01-01)\n  why\n\n- [ ] b\n  - [ ] a\n")
    after = scene.ids()
    assert after["C 2027-01-01"] == before["c"]
    assert (after["b"], after["a"]) == (before["b 2026-11-20"], before["a"])


def test_a_title_that_was_edited_by_hand_never_takes_the_id_of_another(
    scene: TaskFileScene,
) -> None:
    scene.write("- [ ] a\n- [ ] b\n")
    before = scene.ids()
    scene.write("- [ ] b\n- [ ] c\n")
    after = scene.ids()
    assert after["b"] == before["b"]
    assert after["c"] not in before.values()
    with pytest.raises(TaskNotFound):
        scene.open().get(before["a"])


def test_a_title_that_the_program_edits_keeps_its_id(scene: TaskFileScene) -> None:
    task = scene.open().add("a")
    assert scene.open().update(task.id, TaskChange(title="b")).id == task.id
    assert scene.open().add("a").id != task.id
    assert scene.open().get(task.id).title == "b"


def test_of_two_equal_titles_each_keeps_its_id(scene: TaskFileScene) -> None:
    scene.write("- [ ] call mum (due 2026-11-20)\n- [ ] call mum\n")
    before = scene.ids()
    assert len(set(before.values())) == 2
    scene.write("- [ ] call mum\n- [ ] call mum (due 2026-11-20)\n")
    assert scene.ids() == before
    scene.write("- [ ] call mum\n- [ ] call mum (due 2026-12-01)\n")
    assert scene.ids()["call mum 2026-12-01"] == before["call mum 2026-11-20"]
    scene.write("- [ ] call mum\n")
    assert scene.ids() == {"call mum": before["call mum"]}


def test_the_other_of_two_equal_tasks_is_untouched_when_one_is_deleted(
    scene: TaskFileScene,
) -> None:
    first, second = scene.open().add("water"), scene.open().add("water")
    deleted = scene.open().delete(first.id)
    assert scene.open().get(second.id).title == "water"
    with pytest.raises(TaskNotFound):
        scene.open().complete(first.id)
    again = scene.open().add("water")
    assert len({first.id, second.id, again.id}) == 3
    assert scene.open().restore(deleted).id == first.id
    assert [task.id for task in scene.open().tasks()] == [first.id, second.id, again.id]


def test_a_task_that_is_written_again_beside_its_ticked_line_is_another(
    scene: TaskFileScene,
) -> None:
    scene.write("- [ ] water\n")
    before = scene.ids()["water"]
    scene.write("- [ ] water\n- [x] water\n")
    new, old = (task.id for task in scene.open().tasks(with_done=True))
    assert old == before != new


def test_which_of_two_was_removed_and_the_other_changed_is_not_guessed(
    scene: TaskFileScene,
) -> None:
    scene.write("- [ ] water (due 2026-11-20)\n- [ ] water (due 2026-11-27)\n")
    before = scene.ids()
    scene.write("- [ ] water (due 2026-12-04)\n")
    assert scene.ids()["water 2026-12-04"] not in before.values()


def test_a_task_that_is_cut_and_soon_pasted_is_the_same_and_later_another(
    scene: TaskFileScene,
) -> None:
    scene.write("- [ ] a\n- [ ] b\n")
    before = scene.ids()
    scene.write("- [ ] b\n")
    scene.ids()
    scene.now += timedelta(minutes=9)
    scene.write("- [ ] b\n- [ ] a\n")
    assert scene.ids() == before
    scene.write("- [ ] b\n")
    scene.ids()
    scene.now += timedelta(minutes=11)
    scene.write("- [ ] b\n- [ ] a\n")
    assert scene.ids()["a"] != before["a"]


def test_an_editor_that_removes_or_empties_the_file_for_a_moment_changes_no_id(
    scene: TaskFileScene,
) -> None:
    scene.write("- [ ] a\n- [ ] b\n")
    before = scene.ids()
    scene.path.unlink()
    assert scene.ids() == {}
    scene.write("")
    assert scene.ids() == {}
    scene.write("- [ ] b\n- [ ] a\n")
    assert scene.ids() == before


titles = st.sampled_from(["a", "b"])
rows = st.lists(
    st.tuples(titles, st.sampled_from([None, DAY, date(2027, 1, 1)]), st.booleans()), max_size=6
)


@settings(max_examples=80)
@given(st.lists(rows, min_size=1, max_size=6))
def test_an_id_is_of_one_task_and_means_one_title_for_ever(
    texts: list[list[tuple[str, date | None, bool]]],
) -> None:
    known, meaning = TaskIds(), dict[str, str]()
    for number, text in enumerate(texts):
        tasks = [Task("", title, due, done=done) for title, due, done in text]
        ids, known = known.identified(tasks, NOW + timedelta(minutes=number * 7))
        assert len(set(ids)) == len(ids)
        for task_id, task in zip(ids, tasks, strict=True):
            assert meaning.setdefault(task_id, task.title) == task.title


@settings(max_examples=80)
@given(rows, st.randoms(use_true_random=False))
def test_every_order_of_the_same_tasks_has_the_same_ids(
    text: list[tuple[str, date | None, bool]], rng: object
) -> None:
    tasks = [Task("", title, due, done=done) for title, due, done in text]
    ids, known = TaskIds().identified(tasks, NOW)
    order = list(range(len(tasks)))
    rng.shuffle(order)  # type: ignore[attr-defined]
    moved, again = known.identified([tasks[place] for place in order], NOW)
    assert sorted(zip(moved, map(str, (tasks[place] for place in order)), strict=True)) == sorted(
        zip(ids, map(str, tasks), strict=True)
    )
    assert {one.id for one in again.seen} == {one.id for one in known.seen}


def test_a_file_of_equal_tasks_is_read_at_once(scene: TaskFileScene) -> None:
    """With quadratic cost, this test would take very long."""
    scene.write("- [ ] a\n" * 8_000)
    assert len({task.id for task in scene.open().tasks()}) == 8_000


def _at_first(step: str, act: Callable[[], object]) -> Callable[[str, Path], None]:
    """Call `act` once, before the first such step of the disk on the task file."""
    waiting = [act]

    def before(named: str, path: Path) -> None:
        if named == step and path.name.endswith(("tasks.md", "tasks.md.tmp")) and waiting:
            waiting.pop()()

    return before


@pytest.mark.parametrize("step", ["write", "sync"])
def test_what_an_editor_saves_while_a_change_is_made_is_kept(
    scene: TaskFileScene, step: str
) -> None:
    scene.write("- [ ] a\n")
    (task,) = scene.open().tasks()
    disk = SteppedDisk(QuickDisk(), _at_first(step, lambda: scene.write("# mine\n- [ ] a\nnew\n")))
    scene.open(disk).complete(task.id)
    assert scene.path.read_text() == "# mine\n- [x] a\nnew\n"


def test_a_file_that_appears_while_the_first_task_is_added_is_kept(scene: TaskFileScene) -> None:
    disk = SteppedDisk(QuickDisk(), _at_first("sync", lambda: scene.write("- [ ] by hand\n")))
    scene.open(disk).add("by the bot")
    assert scene.path.read_text() == "- [ ] by hand\n- [ ] by the bot\n"


def test_a_program_that_never_stops_writing_is_named(scene: TaskFileScene) -> None:
    scene.write("0\n")

    def write_again(step: str, path: Path) -> None:
        if step == "sync" and path.name.endswith("tasks.md.tmp"):
            scene.write(f"{int(scene.path.read_text()) + 1}\n")

    with pytest.raises(StorageError, match="another program"):
        scene.open(SteppedDisk(QuickDisk(), write_again)).add("a")
    assert scene.path.read_text().strip().isdigit()


CHANGES: dict[str, Callable[[TaskFile, Task], object]] = {
    "add": lambda tasks, _: tasks.add("new", DAY, "notes"),
    "complete": lambda tasks, task: tasks.complete(task.id),
    "update": lambda tasks, task: tasks.update(task.id, TaskChange("other", DAY, "notes")),
    "delete": lambda tasks, task: tasks.delete(task.id),
}


class PowerCut(BaseException):
    """Not an `Exception`: nothing in the program may catch it and go on."""


@pytest.mark.parametrize("change", CHANGES)
def test_after_a_crash_at_any_step_the_file_is_the_old_or_the_new(
    change: str, tmp_path: Path
) -> None:
    old = "- [ ] a\n  with notes\nodd line\n- [ ] b"
    outcomes = set()
    for stop in range(40):
        scene = TaskFileScene(tmp_path / str(stop))
        scene.write(old)
        task = scene.open().tasks()[0]
        steps = iter(range(stop))

        def cut(_: str, __: Path, steps: object = steps) -> None:
            if next(steps, None) is None:  # type: ignore[call-overload]
                raise PowerCut

        try:
            CHANGES[change](scene.open(SteppedDisk(QuickDisk(), cut)), task)
        except PowerCut:
            outcomes.add(scene.path.read_text())
            continue
        outcomes.add(scene.path.read_text())
        break
    else:
        raise AssertionError("the change never ended")
    assert len(outcomes) == 2
    assert old in outcomes


@pytest.mark.parametrize("seed", range(5))
def test_a_change_that_returned_survives_a_power_cut(seed: int, scene: TaskFileScene) -> None:
    disk = PowerCutDisk(QuickDisk(), random.Random(seed))
    task = scene.open(disk).add("a")
    scene.open(disk).complete(task.id)
    disk.cut()
    assert scene.path.read_text() == "- [x] a\n"


def _full(step: str, path: Path) -> None:
    if step == "write":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


@pytest.mark.parametrize("change", CHANGES)
def test_a_full_disk_loses_nothing_and_reading_goes_on(change: str, scene: TaskFileScene) -> None:
    scene.write("- [ ] a\n- [ ] b\n")
    full = scene.open(SteppedDisk(QuickDisk(), _full))
    task = full.tasks()[0]
    with pytest.raises(StorageError, match="No space left") as refused:
        CHANGES[change](full, task)
    assert "Nothing was lost" in str(refused.value)
    assert scene.path.read_text() == "- [ ] a\n- [ ] b\n"
    assert not list(scene.path.parent.glob(".*.tmp"))
    assert scene.open().get(task.id) == task


def _folder(path: Path) -> None:
    path.mkdir()


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere.md")


def _huge(path: Path) -> None:
    path.write_bytes(b"- [ ] a\n" * 200_000)


def _utf16(path: Path) -> None:
    path.write_text("- [ ] a\n", encoding="utf-16")


def _stat_without_access_time(path: Path) -> tuple[int, ...]:
    found = os.lstat(path)
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (_folder, "is not a file. Move it away."),
        (_dangling, "is a link that leads nowhere. Mend or remove it."),
        (_huge, "is larger than 1 MB. Remove what is done."),
        (_utf16, "is not UTF-8 text. Save it as UTF-8."),
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_left_alone(
    make: Callable[[Path], None], sentence: str, scene: TaskFileScene
) -> None:
    make(scene.path)
    before = _stat_without_access_time(scene.path)
    for use in (scene.open().tasks, lambda: scene.open().add("new")):
        with pytest.raises(StorageError) as refused:
            use()
        assert str(refused.value) == f"{scene.path}: {sentence}"
    assert _stat_without_access_time(scene.path) == before


def test_a_link_stays_a_link_and_its_target_is_edited(scene: TaskFileScene) -> None:
    target = scene.path.with_name("notes.md")
    target.write_text("- [ ] a\n")
    scene.path.symlink_to(target.name)
    scene.open().complete(scene.ids()["a"])
    assert scene.path.is_symlink()
    assert target.read_text() == "- [x] a\n"


def test_a_file_keeps_its_mode_and_the_ids_are_private(scene: TaskFileScene) -> None:
    scene.write("- [ ] a\n")
    scene.path.chmod(0o640)
    scene.open().add("b")
    assert scene.path.stat().st_mode & 0o777 == 0o640
    assert scene.data.paths.task_ids.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("garbage", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"seen":[1]}'])
def test_ids_that_cannot_be_read_are_set_aside_and_made_again(
    garbage: bytes, scene: TaskFileScene
) -> None:
    scene.write("- [ ] a\n- [ ] b\n")
    before = scene.ids()
    scene.data.paths.task_ids.write_bytes(garbage)
    assert scene.ids() == before
    aside = list(scene.data.paths.state.glob("task_ids.json.corrupt-*"))
    assert [path.read_bytes() for path in aside] == [garbage]


def test_ids_of_a_newer_version_are_left_as_they_are(scene: TaskFileScene) -> None:
    scene.write("- [ ] a\n")
    newer = b'{"version": 99}'
    scene.data.paths.task_ids.write_bytes(newer)
    scene.open().complete(scene.ids()["a"])
    assert scene.data.paths.task_ids.read_bytes() == newer


def test_reading_creates_nothing_where_there_are_no_tasks(scene: TaskFileScene) -> None:
    assert list(scene.open().tasks()) == []
    assert not scene.path.exists()
    assert not scene.data.paths.task_ids.exists()


@pytest.mark.parametrize("wrong", ["\ud800", "x" * 1001])
def test_a_title_that_cannot_be_kept_is_refused(wrong: str, scene: TaskFileScene) -> None:
    with pytest.raises(WrongInput):
        scene.open().add(wrong)


def test_a_task_is_restored_near_where_it_was_although_the_file_was_edited(
    scene: TaskFileScene,
) -> None:
    scene.write("- [ ] a\n- [ ] b\n- [ ] c\n")
    deleted = scene.open().delete(scene.ids()["b"])
    scene.write("# mine\n- [ ] a\n- [ ] new\n")
    scene.open().restore(deleted)
    assert scene.path.read_text() == "# mine\n- [ ] a\n- [ ] b\n- [ ] new\n"
    assert scene.open().restore(deleted).title == "b"
    assert scene.path.read_text().count("- [ ] b") == 1
