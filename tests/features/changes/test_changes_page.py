"""Changes on the page: the list of `ollim-bot changes`, and the undo of `ollim-bot undo`."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.tasks import MemoryTasks
from tests.file_changes import NOW
from tests.kernel.store.files.data_directory import DataDirectory
from tests.kernel.store.files.test_undo_table import command

from ollim_bot.features.changes.changes_command import row_as_json
from ollim_bot.features.changes.changes_view import ChangesPage
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.changes.file_changes import FileChanges
from ollim_bot.kernel.changes.item_answers import ItemAnswers, answer_item
from ollim_bot.kernel.changes.job_files import JobFileChanges
from ollim_bot.kernel.store.change_rows import note_settings
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.changes import ChangeLine, ChangeList, Changer, ChangeRow, task_words
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.occurrences import Answer
from ollim_bot.kernel.values.schedule import occurrence_at
from ollim_bot.kernel.values.views import ViewAnswer

pytestmark = pytest.mark.real_process


class Page:
    """The page of a bot that runs in the data directory."""

    def __init__(self, data: DataDirectory) -> None:
        self.data, self.root = data, data.paths.root
        stores, clock = data.open(now=NOW), ManualClock(NOW)
        self.store, self.tasks = stores.state, MemoryTasks("Google")
        self.files = FileChanges(data.paths, self.store, data.journal, lambda: NOW)
        answers = ItemAnswers(self.store, JobFileChanges(self.store, stores.repositories))
        self.view = ChangesPage(
            self.store, clock, self.root, self.files, answers, lambda: self.tasks
        )
        self.files.look()

    def write(self, place: str, text: str) -> None:
        (self.root / place).write_text(text)
        self.files.look([place])

    def change_all(self) -> None:
        """Change something of each kind, the file twice at the same line."""
        self.write("USER.md", "Ada\n- tea\n")
        self.write("USER.md", "Ada\n- coffee\n")
        self.write("notes.md", "uno\n")
        for words in ("Plan.", "Plan the day.", "Plan it well."):
            text = f'---\nid: plan\ncron: "0 9 * * *"\n---\n{words}\n'
            self.write("routines/planning.md", text)
        pill = Reminder(JobSpec(id="pill", message="Take the pill."), NOW)
        item = DueItem.of(pill, occurrence_at(pill, NOW), MessageId("1"), NOW)
        task = self.tasks.add("milk")

        def step(tx: Transaction) -> None:
            before = tx.config.get()
            after = before.with_value("daily_cost_cap", "3")
            tx.config.put(after)
            note_settings(tx.changes, before, after, Changer.CHAT, tx.now)
            tx.due_items.put(item)
            answer_item(tx, item.key, Answer.DONE, "web")
            for place, text in ((f"task:{task.id}", task_words(task)), ("event:e1", "Lunch\n")):
                key = tx.changes.new_key(place)
                tx.changes.put(ChangeRow(key, tx.now, place, Changer.AGENT, None, text, "turn 7"))

        self.store.run(step)

    async def lines(self, **asked: str) -> dict[str, ChangeLine]:
        """The newest line of each place."""
        listed = await self.view.look(asked)
        return {each.change.place: each for each in reversed(listed.lines)}

    async def undo(self, line: ChangeLine) -> ViewAnswer:
        return await self.view.act("web", "undo", {"id": line.change.key})


def as_json(listed: ChangeList) -> object:
    """The list as the command prints it."""
    rows = [row_as_json(each.change, is_undone=each.is_undone) for each in listed.lines]
    older = [{"at": each.at, "what": each.what} for each in listed.older]
    shown = {"changes": rows, "older": older}
    return json.loads(json.dumps(shown, default=lambda at: at.isoformat()))


async def test_the_page_lists_what_the_command_lists_and_undoes_each_kind_once(
    data: DataDirectory,
) -> None:
    page = Page(data)
    page.change_all()
    listed = await page.view.look({"most": "1000"})
    assert as_json(listed) == json.loads(command(data, "changes", "--limit", "1000", "--json")[1])
    first = next(each for each in listed.lines if each.change.after == "Ada\n- tea\n")
    assert first.refusal.startswith("USER.md was changed since, by hand (")
    assert first.edit == "/about-me"
    lines = await page.lines()
    planned = lines.pop("routines/planning.md")
    earlier = next(each for each in listed.lines if each.change.after == planned.change.before)
    assert earlier.refusal.startswith("routines/planning.md was changed since")
    assert earlier.edit == f"/jobs/routine:plan?change={earlier.change.key}"
    event = lines.pop("event:e1")
    assert "it would lose its guests" in event.refusal
    assert (await page.undo(event)).is_error
    assert len(lines) == 5
    for place, line in lines.items():
        assert line.refusal == "", place
        answer = await page.undo(line)
        assert not answer.is_error, answer
        assert answer.text.startswith("Undone. ")
        (undone,) = page.store.query(lambda tx: tx.changes.newest(1))
        assert (undone.by, undone.undoes) == (Changer.PAGE, line.change.key), place
        again = await page.undo(line)
        assert again.is_error, place
    assert (page.root / "USER.md").read_text() == "Ada\n- tea\n"
    assert not (page.root / "notes.md").exists()
    assert page.tasks.tasks() == []
    assert page.store.query(lambda tx: tx.config.get()).in_words("daily_cost_cap") != "3"
    (item,) = page.store.query(lambda tx: tx.due_items.open())
    assert item.is_open
    assert (await page.view.act("web", "undo", {"id": "'; --"})).is_error


async def test_a_change_is_found_by_who_and_by_words_of_its_changed_lines(
    data: DataDirectory,
) -> None:
    page = Page(data)
    page.change_all()
    assert [*await page.lines(who="chat")] == ["setting:daily_cost_cap"]
    assert [*await page.lines(words="COFFEE")] == ["USER.md"]
    assert [*await page.lines(words="turn 7", who="agent")] == ["task:Google-1", "event:e1"]
    # The line is in the file, and no change is about it.
    page.write("notes.md", "uno\ndue\n")
    assert len((await page.view.look({"words": "due"})).lines) == 1
    assert len((await page.view.look({"words": "uno"})).lines) == 1
    listed = await page.view.look({"most": "2"})
    assert (len(listed.lines), listed.has_more) == (2, True)

    def many(tx: Transaction) -> None:
        for number in range(600):
            at = NOW - timedelta(days=1, minutes=number)
            tx.changes.put(
                ChangeRow(f"{number:08x}", at, "a.md", Changer.HAND, "a\n", f"l{number}\n")
            )

    page.store.run(many)
    listed = await page.view.look({"words": "l17"})
    assert [each.change.key for each in listed.lines][-2:] == ["000000aa", "00000011"]
