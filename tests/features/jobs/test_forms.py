"""A job as a form: what was typed is saved, all else in the file stays, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
from devtools.doubles.journal import RecordingJournal
from devtools.doubles.memory import RecordingStore
from tests.kernel.conversation.scene import NOW, Scene, scene, scripted
from tests.kernel.store.files.data_directory import QuickDisk
from tests.patience import patience
from tests.stores import Stores

from ollim_bot.features.jobs.job_forms import JobFormView
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.changes.file_changes import FileChanges
from ollim_bot.kernel.changes.job_files import open_repositories
from ollim_bot.kernel.store.job_checker import JobFileChecker
from ollim_bot.kernel.values.changes import Changer, ChangeRow
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.job_form import JobForm, dated
from ollim_bot.kernel.values.schedule import ScheduledJob
from ollim_bot.kernel.values.views import Preview, ViewAnswer

pytestmark = pytest.mark.usefixtures("inline_executor")

REMINDER = """---
# the dentist
id: tooth
run-at: "2026-02-25T09:00"   # by hand
x: red
nag: 10m x 4
{more}---

Call the dentist.

 - ask for March
"""
ROUTINE = """---
id: plan
# weekdays only
cron: '0 9 * * 1-5'
x: {{a: 1}}
description: "The plan"
{more}---
Plan my day.
"""
FORTNIGHT = """---
id: bins
every: 2 weeks
at: "7:30"
from: 2026-02-17
plain: true
must: true
{more}---
Put the bins out.
"""
HOOK = """---
id: bell
fields: {{type: object, properties: {{door: {{enum: [front, back]}}}}}}
# the door
{more}---
Somebody is at the door.
"""
FILES = {
    "reminders/tooth.md": REMINDER,
    "routines/plan.md": ROUTINE,
    "routines/bins.md": FORTNIGHT,
    "webhooks/bell.md": HOOK,
}
AUTHORS = {
    "owner": "",
    "agent": "background: true\nallowed-tools: [ Read ]  # its own\n",
    "others": "untrusted: web page\n",
}
# What is typed into a field, and the lines of the file that this may change.
TYPED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "text": ("Two lines:\nof <b>text</b> --- & more", ()),
    "description": ('say "no": #1', ("description",)),
    "when": ("every day at 8:15", ("cron", "every", "at", "from")),
    "until": ("24 dec", ("until",)),
    "times": ("5", ("times", "from")),
    "nag": ("5m x 2", ("nag",)),
    "first-step": ("find the number", ("first-step",)),
    "before": ("1 hour before, 10m", ("before",)),
    "kind": ("dose", ("kind",)),
    "must": ("yes", ("must",)),
    "quiet": ("no", ("quiet",)),
    "enabled": ("no", ("enabled",)),
}


@dataclass
class Forms:
    """The view of a running bot, on the files of a folder."""

    at: Scene
    paths: DataPaths
    store: RecordingStore
    changes: FileChanges

    @property
    def view(self) -> JobFormView:
        view = self.at.chat.views["job"]
        assert isinstance(view, JobFormView)
        return view

    def put(self, place: str, text: str) -> Path:
        path = self.paths.root / place
        path.write_bytes(text.encode())
        return path

    async def form(self, key: str, draft: str = "") -> JobForm:
        return await self.view.look({"id": key, "draft": draft})

    async def save(self, form: JobForm, **typed: str) -> ViewAnswer:
        return await self.view.act("web", "save", posted(form, **typed))

    def rows(self, most: int = 100) -> list[ChangeRow]:
        return [*self.store.query(lambda tx: tx.changes.newest(most))]


def posted(form: JobForm, **typed: str) -> dict[str, str]:
    """What the page sends: all fields of the form, with what was typed."""
    names = {name.replace("_", "-"): value for name, value in typed.items()}
    shown = {each.name: each.value for each in form.fields}
    return {"id": form.key, "version": form.file.version, **shown, **names}


@asynccontextmanager
async def forms(folder: Path) -> AsyncIterator[Forms]:
    paths, journal, store = DataPaths(folder), RecordingJournal(), RecordingStore(lambda: NOW)
    for each in (paths.reminders, paths.routines, paths.webhooks, paths.locks):
        each.mkdir(parents=True)
    changes = FileChanges(paths, store, journal, lambda: NOW, QuickDisk())
    stores = Stores(store, open_repositories(paths, journal, QuickDisk(), changes=changes))
    files = JobFileChecker(paths)
    async with scene(
        scripted(), stores=stores, former=changes, job_files=files, working_directory=folder
    ) as at:
        yield Forms(at, paths, store, changes)


def others(text: str, names: tuple[str, ...]) -> list[str]:
    """The lines of the fields that have none of the names, with their ends."""
    head = text.split("---", 2)[1].splitlines(keepends=True)
    return [line for line in head if not line.startswith(tuple(f"{name}:" for name in names))]


def body(text: str) -> str:
    return text.split("---", 2)[2]


def problems_of_save(before: str, after: str, name: str) -> Iterator[str]:
    """What a save of one field has changed beside it."""
    changed = TYPED[name][1] if "run-at" not in before or name != "when" else ("run-at",)
    if others(before, changed) != others(after, changed):
        yield "another field has changed"
    if name != "text" and body(before) != body(after):
        yield "the text has changed"
    if before == after:
        yield "nothing was saved"
    if "\r\n" in before and "\n" in after.replace("\r\n", ""):
        yield "a line end has changed"


async def edit_once(at: Forms, place: str, before: str, name: str, *, meanwhile: bool) -> list[str]:
    """Save one field of the file, which may change meanwhile; returns what went wrong."""
    path = at.put(place, before)
    form = await at.form(path.stem)
    typed = {name.replace("-", "_"): TYPED[name][0]}
    if name == "when" and form.kind == "reminder":
        typed = {"when": "tomorrow 8:15"}
    if meanwhile:
        end = "\r\n" if "\r\n" in before else "\n"
        before = before.replace("id: ", f"y: here{end}id: ", 1)
        at.put(place, before)
        answer = await at.save(form, **typed)
        if not answer.is_error or path.read_bytes() != before.encode():
            return ["a conflict was not noticed"]
        form = await at.form(path.stem, answer.go.partition("draft=")[2])
        (field,) = [each for each in form.fields if each.in_file is not None]
        if (field.name, field.value, bool(form.both)) != (name, next(iter(typed.values())), True):
            return [f"the conflict does not show what was typed: {field}"]
        typed = {}
    answer = await at.save(form, **typed)
    if answer.is_error:
        return [f"{answer.field}: {answer.text}"]
    found = [*problems_of_save(before, path.read_bytes().decode(), name)]
    (row,) = at.rows(1)
    if (row.by, row.before) != (Changer.PAGE, before):
        found.append(f"the change is kept as {row.by}")
    at.changes.undo_file(row, Changer.COMMAND)
    if path.read_bytes() != before.encode():
        found.append("it cannot be undone")
    return found


async def test_a_form_changes_what_was_typed_and_no_other_byte_of_the_file(tmp_path: Path) -> None:
    failed, tried = [], 0
    async with forms(tmp_path) as at:
        ways = [("owner", True), *((author, False) for author in AUTHORS)]
        for (place, pattern), (author, meanwhile) in product(FILES.items(), ways):
            text = pattern.format(more=AUTHORS[author])
            text = text.replace("\n", "\r\n") if author == "others" else text
            path = at.put(place, text)
            names = [each.name for each in (await at.form(path.stem)).fields]
            for name in names:
                if name == "must" and "must: true" in text:
                    continue
                tried += 1
                wrong = await edit_once(at, place, text, name, meanwhile=meanwhile)
                failed += [f"{place} by {author}, {name}: {each}" for each in wrong]
            path.unlink()
    assert failed == []
    assert tried > 130


async def test_wrong_words_name_their_field_and_nothing_is_written(tmp_path: Path) -> None:
    wrong = {
        ("reminders/tooth.md", "when"): "after lunch",
        ("reminders/tooth.md", "nag"): "often",
        ("reminders/tooth.md", "before"): "soon",
        ("reminders/tooth.md", "text"): "  ",
        ("routines/plan.md", "when"): "0 99 * * *",
        ("routines/plan.md", "until"): "someday",
        ("routines/plan.md", "times"): "0",
        ("routines/bins.md", "times"): "many",
        ("routines/bins.md", "when"): "3 days after it is done at 9:00",
    }
    async with forms(tmp_path) as at:
        for (place, name), words in wrong.items():
            path = at.put(
                place, FILES[place].format(more="until: 2026-05-01\n" * ("bins" in place))
            )
            before = path.read_bytes()
            answer = await at.save(await at.form(path.stem), **{name: words})
            expected = "until" if "done" in words else name
            assert (answer.is_error, answer.field) == (True, expected), (name, words, answer)
            assert path.read_bytes() == before


async def test_a_rhythm_goes_on_counting_from_its_first_day(tmp_path: Path) -> None:
    async with forms(tmp_path) as at:
        path = at.put("routines/bins.md", FORTNIGHT.format(more=""))
        form = await at.form("bins")
        assert form.values["when"] == "at 7:30 every 2 weeks on Tuesday"
        assert dated(form.next[0], NOW) == "Tue 3 Mar, 7:30"
        assert not (await at.save(form, when="every 2 weeks on tuesday at 8:00")).is_error
        assert "from: 2026-02-17\n" in path.read_text()
        assert not (await at.save(await at.form("bins"), when="0 9 * * 2")).is_error
        text = path.read_text()
        assert 'cron: "0 9 * * 2"' in text
        assert "every" not in text
        assert (await at.form("bins")).values["when"] == "at 9:00 every Tuesday"


async def test_the_file_itself_is_saved_as_typed_and_a_mistake_names_its_line(
    tmp_path: Path,
) -> None:
    async with forms(tmp_path) as at:
        before = ROUTINE.format(more="untrusted: web page\n").replace("\n", "\r\n")
        path = at.put("routines/plan.md", before)
        form = await at.form("plan")
        shown = form.file.text.replace("\r\n", "\n")

        async def save(text: str, version: str = form.file.version) -> ViewAnswer:
            fields = {"id": "plan", "version": version, "file": text}
            return await at.view.act("web", "save-file", fields)

        wrong = await save(shown.replace("'0 9 * * 1-5'", "never"))
        assert (wrong.field, wrong.text[:14]) == ("file", "Line 4: cron: ")
        assert (await save(shown.replace("untrusted: web page\n", ""))).field == "file"
        assert (await save(shown.replace("id: plan", "id: other"))).field == "file"
        assert (await save(shown)).text == "Nothing was changed."
        assert path.read_bytes() == before.encode()
        assert not (await save(shown.replace("0 9", "0 8"))).is_error
        assert path.read_bytes() == before.replace("0 9", "0 8").encode()

        late = await save(shown.replace("0 9", "0 7"))
        assert late.is_error
        both = await at.form("plan", late.go.partition("draft=")[2])
        assert "0 7" in (both.typed or "")
        assert "0 8" in both.file.text
        assert not (await save(both.typed or "", both.file.version)).is_error
        assert path.read_bytes() == before.replace("0 9", "0 7").encode()


async def test_a_change_that_is_not_undone_opens_the_form_with_both(tmp_path: Path) -> None:
    async with forms(tmp_path) as at:
        before = ROUTINE.format(more="")
        path = at.put("routines/plan.md", before)
        assert not (await at.save(await at.form("plan"), text="Plan it.")).is_error
        (row,) = at.rows(1)
        assert not (await at.save(await at.form("plan"), text="Plan it well.")).is_error
        both = await at.view.look({"id": "plan", "change": row.key})
        assert both.both.startswith("This was changed since")
        assert (both.typed, both.file.text) == (before, path.read_text())
        fields = {"id": "plan", "version": both.file.version, "file": both.typed or ""}
        assert not (await at.view.act("web", "save-file", fields)).is_error
        assert path.read_text() == before
        other = await at.view.look({"id": "plan", "change": "0" * 8})
        assert not other.both


async def test_a_wrong_file_is_shown_with_its_lines_and_can_be_mended(tmp_path: Path) -> None:
    async with forms(tmp_path) as at:
        path = at.put("routines/plan.md", ROUTINE.format(more="nag: often\n"))
        form = await at.form("plan")
        assert form.fields == ()
        assert [each[:12] for each in form.problems] == ["Line 7: nag:"]
        assert (await at.save(form, text="x")).is_error
        mended = form.file.text.replace("nag: often\n", "")
        fields = {"id": "plan", "version": form.file.version, "file": mended}
        assert not (await at.view.act("web", "save-file", fields)).is_error
        assert path.read_text() == mended


async def test_the_mark_goes_when_the_owner_has_seen_the_whole_text(tmp_path: Path) -> None:
    async with forms(tmp_path) as at:
        text = REMINDER.format(more="untrusted: web page\n")
        path = at.put("reminders/tooth.md", text)
        form = await at.form("tooth")
        assert form.untrusted == "web page"
        at.put("reminders/tooth.md", text.replace("dentist", "bank"))
        said = {"id": "tooth", "version": form.file.version}
        assert (await at.view.act("web", "my-words", said)).is_error
        assert (await at.view.act("web", "my-words", {"id": "tooth"})).is_error
        assert "untrusted: web page" in path.read_text()
        said["version"] = (await at.form("tooth")).file.version
        assert not (await at.view.act("web", "my-words", said)).is_error
        assert path.read_text() == REMINDER.format(more="").replace("dentist", "bank")
        assert (await at.form("tooth")).untrusted == ""


async def test_its_buttons_do_what_those_of_its_card_do_and_the_page_did_it(tmp_path: Path) -> None:
    async with forms(tmp_path) as at:
        path = at.put("routines/plan.md", ROUTINE.format(more=""))
        before, logged = path.read_text(), len(at.at.log)

        async def press(action: str, key: str = "plan") -> ViewAnswer:
            return await at.view.act("web", action, {"id": key})

        assert "Skipped: The plan" in (await press("skip")).text
        assert (await at.form("plan")).is_skipped
        assert not (await press("resume")).is_error
        assert not (await at.form("plan")).is_skipped
        assert (await press("pause")).text == "Paused: The plan."
        paused = await at.form("plan")
        assert (paused.is_enabled, [*paused.next]) == (False, [])
        assert not (await press("resume", "routine:plan")).is_error
        assert path.read_text() == before
        assert "Running now" in (await press("run")).text
        deleted = await press("delete")
        assert (deleted.text, deleted.go) == ("Cancelled: The plan.", "/today")
        assert not path.exists()
        assert {row.by for row in at.rows()} == {Changer.PAGE}
        at.changes.undo_file(at.rows()[0], Changer.COMMAND)
        assert path.read_text() == before
        assert (await press("explode")).is_error
        assert (await press("pause", "nothing")).is_error
        assert len(at.at.log) == logged, "a press on the page posts nothing"


async def test_a_preview_says_when_it_comes_and_what_changes_and_writes_nothing(
    tmp_path: Path,
) -> None:
    asked: list[tuple[ScheduledJob | None, ScheduledJob | None]] = []

    async def difference(before: ScheduledJob | None, after: ScheduledJob | None) -> str:
        asked.append((before, after))
        return "adds 2 pings a week"

    async with forms(tmp_path) as at:
        view = JobFormView(at.store, at.at.stores.repositories, at.at.clock, no_press, difference)
        path = at.put("reminders/tooth.md", REMINDER.format(more=""))
        before, form = path.read_bytes(), await at.form("tooth")
        assert form.rhythm == "tomorrow, Wed 25 Feb, 9:00 · once"
        assert await view.preview("save", posted(form)) == Preview()
        shown = await view.preview("save", posted(form, when="friday 9:30"))
        assert shown == Preview(("Fri 27 Feb, 9:30 · once", "adds 2 pings a week"))
        ((was, then),) = asked
        assert was is not None
        assert then is not None
        assert then.timing == "2026-02-27T09:30:00"
        real = await at.view.preview("save", posted(form, when="friday 9:30"))
        assert (real.sentences[0], len(real.sentences)) == (shown.sentences[0], 2)
        unclear = await view.preview("save", posted(form, when="friday at 6"))
        assert unclear.is_error
        readings = [each.value for each in unclear.readings]
        assert len(readings) == 2
        answer = await at.save(form, when="friday at 6", reading=readings[1])
        assert not answer.is_error
        assert "2026-02-27T18:00:00" in path.read_text()
        at.put("reminders/tooth.md", before.decode())
        await view.preview("save", posted(form, enabled="no"))
        assert asked[-1][1] is None, "a paused job does not come"
        file = {"id": "tooth", "file": "nothing", "version": form.file.version}
        assert (await view.preview("save-file", file)).is_error
        assert path.read_bytes() == before


async def test_a_change_of_a_job_is_told_at_once(tmp_path: Path) -> None:
    async with forms(tmp_path) as at, asyncio.timeout(patience()):
        at.put("routines/plan.md", ROUTINE.format(more=""))
        changes = at.view.changes()
        told = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        assert not (await at.save(await at.form("plan"), text="Plan it well.")).is_error
        await told
        await changes.aclose()  # type: ignore[attr-defined]


async def test_two_jobs_of_one_id_are_told_apart_by_their_kind(tmp_path: Path) -> None:
    async with forms(tmp_path) as at:
        at.put("routines/bell.md", ROUTINE.format(more="").replace("id: plan", "id: bell"))
        at.put("webhooks/bell.md", HOOK.format(more=""))
        answer = await at.view.act("web", "pause", {"id": "bell"})
        assert "/jobs/routine:bell or /jobs/webhook:bell" in answer.text
        assert (await at.form("webhook:bell")).kind == "webhook"
        assert (await at.view.act("web", "run", {"id": "webhook:bell"})).is_error


async def no_press(*_: object) -> CommandAnswer:
    raise AssertionError("nothing is pressed")
