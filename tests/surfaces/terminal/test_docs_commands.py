"""Every command that a page names is run, on a directory with what a person has after weeks."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from tests.features.calendars.calendar_server import CalendarAnswer, ics, served
from tests.features.google.scene import START, google_scene
from tests.features.google.test_calendars import at
from tests.features.runs.test_runs_command import ROWS, append
from tests.snapshots import Snapshot
from tests.surfaces.terminal.test_docs import examples
from tests.terminal import Terminal, is_here
from tests.test_docs import DOCS, ROOT, commands

from ollim_bot.kernel.base.ids import MessageId, SessionId, TurnId
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.changes import Changer, ChangeRow
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.sessions import SessionChange, SessionEvent
from ollim_bot.kernel.values.taint import TaintMark

PAGES = [*sorted(DOCS.glob("*.md")), ROOT / "README.md"]
WEBHOOKS = {"WEBHOOK_PORT": "9100", "WEBHOOK_SECRET": "a-long-random-text"}
NOTE = "notes/others/plan.md"
SESSION = SessionId("1a2b3c4d-0000-4000-8000-000000000000")

# What cannot be run here, and where it is. `tests/test_docs.py` has the parser read its words.
NOT_RUN = {
    "auth": "asks the account of the owner: test_auth.py",
    "forget": "asks, and has to find what it forgets: test_forget.py",
    "google login": "waits for a browser: tests/features/google/test_cli.py",
    "marks mine": "asks in a terminal: test_marks.py",
    "mcp approve": "asks in a terminal: test_mcp.py",
    "mcp test": "asks in a terminal: test_mcp.py",
    "push remove": "needs a paired phone: test_push.py",
    "push setup": "asks in a terminal: test_push.py",
    "push test": "waits for a press: test_push.py",
    "reminder run": "asks the running bot: test_run_now.py",
    "routine run": "asks the running bot: test_run_now.py",
    "service": "changes the services of the machine: test_service.py",
    "setup": "asks in a terminal: test_setup_terminal.py",
    "skill add": "asks in a terminal: test_skill.py",
    "standby accept": "needs a database: tests/standby",
    "standby hand-over": "needs a database: tests/standby",
    "standby init": "needs a database: tests/standby",
    "standby join": "needs a database: tests/standby",
    "standby leave": "needs a database: tests/standby",
    "update": "replaces the program: tests/upkeep",
    "web url": "asks the running bot: test_web.py",
    "webhook test": "asks the running bot: tests/features/webhooks/test_from_the_terminal.py",
}
# What a page calls the owner's things, and what they are called here.
CHANGE = "3f2a91c0"
OF_NOUN = {
    "changes": {"ID": CHANGE},
    "undo": {"ID": CHANGE},
    "routine": {"ID": "morning"},
    "reminder": {"ID": "dentist"},
    "runs": {"ID": "dentist"},
    "history": {"ID": "1a2b3c4d"},
    "restore": {"moving.tar.gz": "copy.tar.gz"},
}
STANDS_FOR = {
    "/media/stick": "stick",
    "[FILE|DIRECTORY]": "stick",
    "FILE": "copy.tar.gz",
    "ollim-bot-20261115T060000Z.tar.gz": "copy.tar.gz",
    "3f2a9c1b": "821d3c12",
    "Q": "from:ada",
}
# The text names a command and leaves out what follows.
_LEFT_OUT = re.compile(r"are required|^Say (?:what to do|for which shell)")


def named_commands(*, of_google: bool) -> list[str]:
    """The commands of these pages, except for those whose answers `test_docs.py` compares."""
    compared = {shlex.join(words) for words, _ in examples()}
    pages = [page for page in PAGES if (page.stem in ("google", "mail")) == of_google]
    found = {command: None for page in pages for command in commands(page.read_text())}
    return [each for each in found if _is_run(each) and _written(each) not in compared]


def _is_run(command: str) -> bool:
    words = shlex.split(command)
    names = {words[0], " ".join(words[:2])}
    return is_here(words[0]) and ("--dry-run" in words or not names & NOT_RUN.keys())


def _written(command: str) -> str:
    return shlex.join(shlex.split(command))


def said_wrong(terminal: Terminal, words: list[str]) -> str:
    """What is wrong with the answer; empty if the command did what it should."""
    answer = terminal.run(*words)
    is_right = answer.code == 0 or _LEFT_OUT.search(answer.err) is not None
    return "" if is_right else f"{shlex.join(words)}: {answer.err or answer.out}"


def fill(terminal: Terminal) -> None:
    terminal.make_directory()
    for command in (
        'routine add -m "plan my day" --cron "30 8 * * 1-5" --background --id morning',
        'routine add "ask me how the day was" --every "day at 9pm" --id evening',
        'reminder add -m "call the dentist" --at "tomorrow 9am" --id dentist',
        'reminder add -m "check the oven" --in 20m --id oven',
        'webhook add "The washing machine is done." --id wash --deliver plain',
        'tasks add "water the ferns" --due friday',
        "tasks add milk --list shopping",
    ):
        terminal.done(*shlex.split(command))
    for name in ("work", "family"):
        calendar = ics(f"SUMMARY:Picnic of {name}\nDTSTART;VALUE=DATE:20261116")
        (terminal.paths.root / f"{name}.ics").write_bytes(calendar)
    terminal.done("cal", "subscribe", "work.ics", "--name", "Work")
    draft = '---\nid: evening\ncron: "0 21 * * *"\n---\nask me how the day was\n'
    (terminal.home / "evening.md").write_text(draft)
    server = {
        "command": sys.executable,
        "args": [str(ROOT / "tests/features/tool_servers/quick_server.py")],
    }
    terminal.paths.mcp.write_text(json.dumps({"mcpServers": {"notes": server}}))
    append(terminal, *ROWS)
    (terminal.paths.root / NOTE).parent.mkdir(parents=True)
    (terminal.paths.root / NOTE).write_text("plan\n")
    terminal.keep(_talk)
    (terminal.home / "stick").mkdir()
    terminal.done("backup", "copy.tar.gz", "--with-keys")


def _talk(tx: Transaction) -> None:
    tx.config.change(lambda config: config.with_value("model.main", "opus"))
    tx.marks.leave(TaintMark("web page", tx.now, path=NOTE))
    place = "setting:model.main"
    tx.changes.put(ChangeRow(CHANGE, tx.now, place, Changer.COMMAND, "default", "opus"))
    tx.session.put(SESSION)
    tx.session_history.append(SessionEvent(SESSION, SessionChange.CREATED, tx.now, None))
    tx.messages.add(ChatMessage(MessageId("1"), tx.now, Author.OWNER, "When is the dentist?"))
    answer = ChatMessage(MessageId("2"), tx.now, Author.ASSISTANT, "The dentist is on Friday.")
    tx.messages.add(replace(answer, turn=TurnId("1"), session=SESSION))


@contextmanager
def calendar_address(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The address of a calendar on standard input, where `cal subscribe -` reads it."""
    body = ics("SUMMARY:Talk\nDTSTART;VALUE=DATE:20261116")
    with served(CalendarAnswer(body=body)) as server:
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{server.address()}\n"))
        yield


@pytest.mark.real_process
def test_every_command_of_the_pages_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # each change would start git
    first = Terminal(tmp_path / "first")
    first.home.mkdir()
    first.environ |= WEBHOOKS
    fill(first)
    snapshot, homes, seen = Snapshot(first.home), count(), set[str]()
    wrong = []
    with calendar_address(monkeypatch):
        for command in named_commands(of_google=False):
            noun, *rest = shlex.split(command)
            names = STANDS_FOR | OF_NOUN.get(noun, {})
            words = [noun, *(names.get(word, word) for word in rest)]
            if shlex.join(words) in seen:
                continue
            seen.add(shlex.join(words))
            terminal = Terminal(tmp_path / str(next(homes)))
            terminal.environ |= WEBHOOKS
            snapshot.write(terminal.home)
            if words[:2] == ["webhook", "add"]:
                terminal.done("webhook", "cancel", "wash")
            if words[:2] == ["cal", "subscribe"]:
                terminal.done("cal", "unsubscribe", "Work")
            wrong.append(said_wrong(terminal, words))
    assert list(filter(None, wrong)) == []
    assert len(seen) > 40, "the commands are no longer found on the pages"


def test_every_command_about_google_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with google_scene(tmp_path / "data") as scene:
        terminal = Terminal(tmp_path, START)
        terminal.paths = scene.paths
        data = {"OLLIM_DATA_DIR": str(scene.paths.root)}
        terminal.environ |= {**scene.google.environment, **data}
        scene.google.calendar.add_calendar("team", "Team")
        wrong = []
        for command in named_commands(of_google=True):
            scene.connect()
            event = scene.google.calendar.add(summary="Talk", start=at(14), end=at(15))
            mail = scene.google.gmail.receive("Ada <ada@example.com>", "Hi", "Hello.", at=START)
            names = {"3f2a91c04b7d": str(event["id"]), "18f0000000000001": mail, "ID": mail}
            names |= {"primary,ID": "primary,team", "Q": "from:ada"}
            words = [names.get(word, word) for word in shlex.split(command)]
            if words[-2:-1] == ["google_task_list"]:
                words[-1] = terminal.json("tasks", "lists")["lists"][0]
            if words[0] == "cal":
                terminal.done("cal", "refresh")
            wrong.append(said_wrong(terminal, words))
    assert list(filter(None, wrong)) == []


def test_every_make_target_of_the_pages_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    code = re.compile(r"^ *(?:\$ )?make ([a-z]+)|`make ([a-z]+)`", re.MULTILINE)
    named = {a or b for page in PAGES for a, b in code.findall(page.read_text())}
    assert {"run", "test"} <= named <= targets
