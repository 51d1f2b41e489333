"""What × who changed it × changed again since × running or not: an undo loses nothing.

Each cell makes a change, perhaps another one after it, and undoes the first. Either the first is
taken back and what came after stays, or nothing changes and the reason is told.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import re
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from datetime import timedelta
from pathlib import Path

import pytest
from devtools.doubles.disks import SteppedDisk
from tests.file_changes import NOW, RowsBeside, file_changes
from tests.kernel.store.files.data_directory import DataDirectory

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.changes.file_changes import FileChanges, UndoRefused, acting, shared_file
from ollim_bot.kernel.changes.item_answers import answer_item
from ollim_bot.kernel.changes.job_files import JobFileChanges, open_repositories
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.agent_caller import CALLED_BY, CONVERSATION
from ollim_bot.kernel.values.changes import Changer, ChangeRow, merged
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.occurrences import Answer
from ollim_bot.kernel.values.schedule import occurrence_at
from ollim_bot.kernel.values.shared_files import FileChange, JobFile
from ollim_bot.surfaces.terminal.main import main

JOB = (
    '---\nid: plan\ncron: "0 9 * * *"\ndescription: {about}\n{more}---\n'
    "Plan the day.\n\nAnd then?\n"
)
TAINTED = "untrusted: web page\n"
TOOLS = 'allowed-tools: ["Bash(ollim-bot gmail *)"]\n'
PLACES = ("routines/plan.md", "reminders/plan.md", "USER.md", "tasks.md", "skills/mail/SKILL.md")
SKILL = "---\nname: mail\ndescription: {about}\n---\nRead the mail.\n\nAnd then?\n"


def text_of(place: str, about: str, end: str = "", more: str = "") -> str:
    if place.startswith("skills"):
        return SKILL.format(about=about) + end
    if place.startswith("reminders"):
        text = JOB.replace('cron: "0 9 * * *"', 'run-at: "2026-02-25T09:00"')
        return text.format(about=about, more=more) + end
    if place.startswith("routines"):
        return JOB.format(about=about, more=more) + end
    return f"- {about}\n- second\n\n- third\n{end}"


class Hands:
    """Each of those who change files, through the way on which they do."""

    def __init__(self, data: DataDirectory) -> None:
        self.data = data
        self.rows = RowsBeside(data.paths, lambda: NOW)
        self.changes = file_changes(data.paths, data.journal)
        self.changes.look()

    def path(self, place: str) -> Path:
        path = self.data.paths.root / place
        path.parent.mkdir(exist_ok=True)
        return path

    def write(self, place: str, text: str | None) -> None:
        path = self.path(place)
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(text)

    def change(self, who: Changer, place: str, after: str | None) -> ChangeRow:
        """Change the file, and return the newest row."""
        path, file = self.path(place), shared_file(place)
        before = path.read_text() if path.exists() else None
        if who is Changer.AGENT and file is not None:
            self.write(place, after)
            change = FileChange(f"{len(self.newest):08x}", file, before, after, NOW, CONVERSATION)
            self.changes.keep(change)
        elif who in (Changer.BUTTON, Changer.COMMAND) and file is not None:
            self.changes.leave(place, after, who)
            self.write(place, after)
        else:
            self.write(place, after)
            self.changes.look([place], who)
        return self.newest[0]

    def put(self, place: str, text: str | None) -> None:
        self.write(place, text)
        self.changes.look([place])

    @property
    def newest(self) -> list[ChangeRow]:
        return self.rows.query(lambda tx: tx.changes.newest(100))

    def text(self, place: str) -> str | None:
        path = self.path(place)
        return path.read_text() if path.exists() else None


@pytest.fixture
def hands(data: DataDirectory) -> Hands:
    return Hands(data)


WHO = (Changer.AGENT, Changer.BUTTON, Changer.COMMAND, Changer.HAND)
# What the first change does, and what comes after it.
FIRST = {"added": (None, "new"), "changed": ("old", "new"), "removed": ("old", None)}
SINCE = ("nothing", "elsewhere in it", "the same line", "gone or there again")


def refusal(hands: Hands, change: ChangeRow) -> str | None:
    try:
        hands.changes.undo_file(change, Changer.COMMAND)
    except UndoRefused as refused:
        return str(refused)
    return None


@pytest.mark.parametrize(
    ("place", "who"),
    [
        *((PLACES[0], who) for who in WHO),
        # A button and a command change other files as they change a job.
        *((place, who) for place in PLACES[1:] for who in (Changer.AGENT, Changer.HAND)),
    ],
)
def test_an_undo_takes_back_one_change_or_nothing(hands: Hands, place: str, who: Changer) -> None:
    for (name, (old, new)), since in itertools.product(FIRST.items(), SINCE):
        hands.put(place, None if old is None else text_of(place, old))
        first = hands.change(who, place, None if new is None else text_of(place, new))
        assert (first.by, first.place) == (who, place), (name, since)
        match since:
            case "elsewhere in it":
                hands.change(Changer.HAND, place, text_of(place, new or "other", "More.\n"))
            case "the same line":
                hands.change(Changer.HAND, place, text_of(place, "third time"))
            case "gone or there again":
                after = text_of(place, "again") if new is None else None
                hands.change(Changer.HAND, place, after)
        now, known = hands.text(place), len(hands.newest)
        noted = len(hands.data.journal.notes)
        why = refusal(hands, first)
        if name == "added" and since == "elsewhere in it":
            # What is left of a job or a skill would be none.
            assert (why is None) is not isinstance(shared_file(place), JobFile)
        if why is not None:
            assert since != "nothing", (name, since)
            assert "changed since" in why
            assert hands.text(place) == now
            assert len(hands.newest) == known
            assert len(hands.data.journal.notes) == noted
            continue
        if since == "nothing":
            assert hands.text(place) == (None if old is None else text_of(place, old))
        elif since == "gone or there again":
            # It was gone before, too.
            assert hands.text(place) is None
        elif name == "added":
            assert since == "elsewhere in it"
            assert hands.text(place) == "More.\n"
        else:
            assert (name, since) == ("changed", "elsewhere in it")
            assert hands.text(place) == text_of(place, "old", "More.\n")
        (undo, *_) = hands.newest
        assert (undo.undoes, undo.by) == (first.key, Changer.COMMAND)
        with pytest.raises(UndoRefused):
            hands.changes.undo_file(first, Changer.COMMAND)
        hands.changes.undo_file(undo, Changer.COMMAND)
        assert hands.text(place) == now


@pytest.mark.parametrize("place", PLACES)
def test_a_begun_write_is_the_agents_and_what_comes_after_its_end_is_not(
    hands: Hands, place: str
) -> None:
    for old in (None, text_of(place, "old")):
        hands.put(place, old)
        hands.changes.begin(place, "0a1b2c3d", CONVERSATION, "web page")
        hands.write(place, text_of(place, "neü"))
        # The next start.
        hands.changes.look()
        row = hands.newest[0]
        assert (row.by, row.before, row.untrusted) == (Changer.AGENT, old, "web page")
        hands.changes.undo_file(row, Changer.COMMAND)
        assert hands.text(place) == old
        hands.put(place, text_of(place, "by hand"))
        assert hands.newest[0].by is Changer.HAND
        hands.changes.begin(place, "1a1b2c3d", CONVERSATION, "web page")
        hands.changes.end(["1a1b2c3d"])
        hands.put(place, text_of(place, "again"))
        assert (hands.newest[0].by, hands.newest[0].untrusted) == (Changer.HAND, "")
        for each in hands.newest:
            hands.changes.absorb(each.key)


def test_no_power_comes_back_unasked(hands: Hands) -> None:
    place = "routines/plan.md"
    wide, narrow = text_of(place, "wide", more=TOOLS), text_of(place, "wide")
    hands.change(Changer.HAND, place, wide)
    for after in (narrow, None):
        change = hands.change(Changer.HAND, place, after)
        with pytest.raises(UndoRefused, match=f"ollim-bot undo {change.key} --with-tools"):
            hands.changes.undo_file(change, Changer.COMMAND)
        assert hands.text(place) == after
        hands.changes.undo_file(change, Changer.COMMAND, may_widen=True)
        assert hands.text(place) == wide


MORE = "main_session:\n  additional_allowed: ['Bash(curl *)']\n"
BACKGROUND_MORE = "bg_forks:\n  additional_allowed: ['Bash(curl *)']\n"
# What the policy says now, what it said before, and what an undo would allow again.
POLICIES: dict[str, tuple[str | None, str, str]] = {
    "nothing allowed": (None, "# Höflich\nmain_session:\n  additional_allowed: []\n", ""),
    "other words for the same": (MORE, f"# Ä\n{MORE.replace(chr(39), chr(34))}", ""),
    "less": (MORE, "main_session:\n", ""),
    "more": (None, MORE, "`Bash(curl *)`"),
    "more in the background": (MORE, MORE + BACKGROUND_MORE, "`Bash(curl *)` in the background"),
    "one more of two": (
        MORE,
        "main_session:\n  additional_allowed:\n  - Bash(curl *)\n  - Bash(ä *)\n",
        "`Bash(ä *)`",
    ),
    "the usual again": (
        "bg_forks:\n  override: []\n",
        "# Nothing\n",
        "the usual tools in the background",
    ),
    "only some of the usual": (None, "bg_forks:\n  override: []\n", ""),
    "not to be read": (None, "main_session: [\n", ""),
}


@pytest.mark.parametrize("name", POLICIES)
def test_an_undo_of_the_policy_names_what_it_allows_again_or_asks_nothing(
    hands: Hands, name: str
) -> None:
    now, before, allowed = POLICIES[name]
    place = "tool-policy.yaml"
    hands.put(place, before)
    change = hands.change(Changer.HAND, place, now)
    if not allowed:
        hands.changes.undo_file(change, Changer.COMMAND)
        assert hands.text(place) == before
        return
    sentence = f"That would allow {allowed} again. If you want that: "
    with pytest.raises(UndoRefused, match=f"^{re.escape(sentence)}"):
        hands.changes.undo_file(change, Changer.COMMAND)
    assert hands.text(place) == now
    hands.changes.undo_file(change, Changer.COMMAND, may_widen=True)
    assert hands.text(place) == before


@pytest.mark.parametrize("is_marked_first", [True, False])
def test_words_of_others_stay_marked(hands: Hands, is_marked_first: bool) -> None:
    place = "reminders/plan.md"
    marked, plain = text_of(place, "a", more=TAINTED), text_of(place, "a")
    hands.change(Changer.HAND, place, marked if is_marked_first else plain)
    first = hands.change(Changer.AGENT, place, text_of(place, "b", more=TAINTED))
    assert first.untrusted == "web page"
    hands.change(Changer.HAND, place, text_of(place, "b", "More.\n", TAINTED))
    hands.changes.undo_file(first, Changer.COMMAND)
    assert TAINTED.strip() in (hands.text(place) or "")
    assert hands.newest[0].untrusted == "web page"


class CrashingRows(RowsBeside):
    """Dies before the commit with this number."""

    left = 10**6

    def run(self, step):  # type: ignore[no-untyped-def]
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return super().run(step)


def crash(hands: Hands, change: ChangeRow, *, disk: int = 10**6, rows: int = 10**6) -> bool:
    """Whether the undo came to its end before the crash."""
    beside = CrashingRows(hands.data.paths, lambda: NOW)
    beside.left = rows
    steps = itertools.count(1)

    def die(step: str, _: Path) -> None:
        if step in ("write", "replace", "link", "remove", "sync_folder") and next(steps) > disk:
            raise KeyboardInterrupt

    stepped = SteppedDisk(OsDisk(), die)
    made = FileChanges(hands.data.paths, beside, hands.data.journal, lambda: NOW, stepped)
    try:
        made.undo_file(change, Changer.COMMAND)
    except KeyboardInterrupt:
        return False
    return True


@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize("where", ["disk", "rows"])
def test_after_a_crash_at_any_step_an_undo_is_done_or_can_be_done(
    hands: Hands, name: str, where: str
) -> None:
    place, (old, new) = "routines/plan.md", FIRST[name]
    before, after = (None if each is None else text_of(place, each) for each in (old, new))
    for step in itertools.count():
        hands.put(place, before)
        first = hands.change(Changer.AGENT, place, after)
        is_over = crash(hands, first, **{where: step})
        assert hands.text(place) in (before, after)
        # The next start.
        hands.changes.look()
        if hands.text(place) == after:
            hands.changes.undo_file(first, Changer.COMMAND)
        assert hands.text(place) == before
        undos = [each for each in hands.newest if each.undoes == first.key]
        assert len(undos) == 1, step
        if is_over:
            assert step >= 2
            return


def command(data: DataDirectory, *words: str, by: str = "") -> tuple[int, str]:
    said = io.StringIO()
    environ = {"HOME": "/nowhere", "OLLIM_DATA_DIR": str(data.paths.root), CALLED_BY: by}
    with redirect_stdout(said), redirect_stderr(said):
        code = main(words, environ=environ, cwd=data.paths.root, now=lambda: NOW)
    return code, said.getvalue()


@pytest.mark.real_process
@pytest.mark.parametrize("is_running", [True, False])
def test_what_commands_change_is_listed_and_undone(data: DataDirectory, is_running: bool) -> None:
    def run(*words: str) -> tuple[int, str]:
        return command(data, *words)

    run("config", "set", "model.main", "sonnet")
    run("config", "set", "timezone", "Europe/Berlin")
    made = [
        ("config", "set", "model.main", "opus"),
        ("config", "set", "timezone", "Asia/Tokyo"),
        ("routine", "add", "-m", "Plan", "--cron", "0 9 * * *", "--id", "plan"),
        ("routine", "pause", "plan"),
        ("routine", "cancel", "plan"),
        ("tasks", "add", "milk"),
        ("tasks", "done", "milk"),
    ]

    def jobs() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in data.paths.routines.iterdir()}

    def undo_all() -> None:
        before = jobs()
        for words in made:
            assert run(*words)[0] == 0, words
        code, said = run("changes", "--json", "--limit", str(len(made)))
        assert code == 0, said
        rows = json.loads(said)["changes"]
        assert [each["by"] for each in rows] == ["command line"] * len(made)
        for row in rows:
            code, said = run("undo", row["id"])
            assert code == 0, said
            assert said.startswith("Undone. ")
        assert jobs() == before
        assert not data.paths.tasks.exists()
        assert run("config", "get", "model.main")[1] == "sonnet\n"
        assert run("config", "get", "timezone")[1] == "Europe/Berlin\n"

    if not is_running:
        undo_all()
        return
    with single_instance(data.paths.bot_pid):
        undo_all()


@pytest.mark.real_process
def test_the_mode_of_permissions_is_not_widened_by_an_undo(data: DataDirectory) -> None:
    command(data, "config", "set", "permission_mode", "acceptEdits")
    command(data, "config", "set", "permission_mode", "dontAsk")
    rows = json.loads(command(data, "changes", "--json")[1])["changes"]
    code, said = command(data, "undo", rows[0]["id"])
    assert code != 0
    assert "ollim-bot config set permission_mode acceptEdits" in said
    assert command(data, "config", "get", "permission_mode")[1] == "dontAsk\n"
    assert command(data, "undo", rows[1]["id"])[0] != 0


@pytest.mark.real_process
def test_the_agent_reads_changes_but_undoes_none(data: DataDirectory) -> None:
    command(data, "config", "set", "model.main", "sonnet")
    (row,) = json.loads(command(data, "changes", "--json")[1])["changes"]
    assert command(data, "changes", by=CONVERSATION)[0] == 0
    assert command(data, "undo", row["id"], by=CONVERSATION)[0] != 0


def test_long_texts_are_not_kept(hands: Hands) -> None:
    change = hands.change(Changer.HAND, "USER.md", "x" * 70_000)
    assert (change.is_cut, change.before, change.after) == (True, None, None)
    with pytest.raises(UndoRefused, match="too long"):
        hands.changes.undo_file(change, Changer.COMMAND)


def test_what_a_button_does_to_a_job_is_a_row(data: DataDirectory) -> None:
    hands = Hands(data)
    hands.change(Changer.HAND, "routines/plan.md", text_of("routines/plan.md", "a"))
    changes = hands.changes
    routines = open_repositories(data.paths, data.journal, changes=changes).routines
    with acting(Changer.BUTTON, "0a1b2c3d"):
        routines.amend("plan", {"enabled": False})
    assert (hands.newest[0].key, hands.newest[0].by) == ("0a1b2c3d", Changer.BUTTON)
    known = len(hands.newest)
    routines.remove("plan")
    assert len(hands.newest) == known


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "both"),
    [
        ("a\nb\nc\n", "a\nb\nC\n", "A\nb\nc\n", "A\nb\nC\n"),
        ("a\nb\n", "a\nb\nc\n", "a\n", "a\nc\n"),
        ("a\nb\n", "a\nB\n", "a\nx\n", None),
        ("a\n", "a\nb\n", "a\nc\n", None),
        ("a\nb\nc\n", "a\nc\n", "a\nb\nx\nc\n", "a\nx\nc\n"),
    ],
)
def test_changes_of_other_lines_are_merged(
    base: str, ours: str, theirs: str, both: str | None
) -> None:
    assert merged(base, ours, theirs) == both


@pytest.mark.real_process
@pytest.mark.parametrize("is_running", [True, False])
def test_an_answer_is_taken_back_with_its_reminder(data: DataDirectory, is_running: bool) -> None:
    """If no bot runs, the command changes the file; the next look finds nothing done by hand."""
    pill = Reminder(JobSpec(id="pill", message="Take the pill."), NOW)
    item = DueItem.of(pill, occurrence_at(pill, NOW), MessageId("1"), NOW)
    until = NOW + timedelta(hours=5)

    def answered(tx: Transaction) -> None:
        tx.due_items.put(item)
        answer_item(tx, item.key, Answer.SNOOZED, "web", until=until, copy="c0")

    stores = data.open(now=NOW)
    stores.state.run(answered)
    asyncio.run(JobFileChanges(stores.state, stores.repositories).make())
    file_changes(data.paths, data.journal).look()
    assert len(stores.reminders.all()) == 1
    (row,) = json.loads(command(data, "changes", "--json")[1])["changes"]
    with single_instance(data.paths.bot_pid) if is_running else nullcontext():
        assert (
            "answered “Take the pill”: open → snoozed until today 14:00"
            in command(data, "changes")[1]
        )
        assert command(data, "undo", row["id"]) == (0, "Undone. “Take the pill” is open again.\n")
        assert command(data, "undo", row["id"]) == (1, "It was undone before.\n")
    assert stores.state.query(lambda tx: [each.key for each in tx.due_items.open()]) == [item.key]
    assert len(stores.reminders.all()) == int(is_running)
    asyncio.run(JobFileChanges(stores.state, stores.repositories).make())
    assert not stores.reminders.all()
    if not is_running:
        file_changes(data.paths, data.journal).look()
        rows = json.loads(command(data, "changes", "--json")[1])["changes"]
        assert [each["by"] for each in rows] == ["command line", "button"]
