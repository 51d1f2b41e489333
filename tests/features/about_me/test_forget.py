"""`ollim-bot forget`: a line of the notes, or a sentence wherever it stands."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.features.about_me.forgetting_scene import (
    CHANGED,
    OTHER,
    REMOVED,
    SENTENCE,
    SESSION,
    plant,
    traces,
)
from tests.snapshots import Snapshot
from tests.terminal import Terminal

from ollim_bot.features.about_me.forgetting_everywhere import Forgetting
from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.engine.transcripts import project_key
from ollim_bot.kernel.values.forgetting import Passage

pytestmark = pytest.mark.real_process


@pytest.fixture(scope="module")
def planting(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Snapshot]:
    home = tmp_path_factory.mktemp("home")
    plant(Terminal(home))
    return home, Snapshot(home)


@pytest.fixture
def planted(planting: tuple[Path, Snapshot]) -> Terminal:
    """A terminal with the sentence everywhere; transcripts know the home by its path."""
    home, snapshot = planting
    shutil.rmtree(home)
    snapshot.write(home)
    return Terminal(home)


def user_file(terminal: Terminal) -> list[str]:
    return terminal.paths.user.read_text().splitlines()


def test_a_line_is_removed_from_its_file_and_can_be_found_in_the_history(
    terminal: Terminal,
) -> None:
    terminal.make_directory()
    terminal.write("USER.md", "Ada\n- likes tea\n- has a dog\n")
    said = terminal.done("forget", "USER.md:2")
    assert said.startswith("Forgot 1 line:\n  USER.md:2  - likes tea\n")
    assert user_file(terminal) == ["Ada", "- has a dog"]
    assert terminal.git("log", "-1", "--format=%s") == ["forget: USER.md"]


def test_words_are_forgotten_in_every_file_of_notes(terminal: Terminal) -> None:
    terminal.make_directory()
    terminal.write("USER.md", "Ada\nShe LIKES\n  tea a lot\n")
    terminal.write("notes/a.md", "likes teak\nlikes, tea\n")
    terminal.write("reminders/a.md", "likes tea\n")
    gone = terminal.json("forget", "likes tea")["forgotten"]
    assert [f"{one['file']}:{one['line']}" for one in gone] == [
        *("USER.md:2", "USER.md:3"),
        "notes/a.md:2",
    ]
    assert user_file(terminal) == ["Ada"]
    assert (terminal.paths.root / "notes/a.md").read_text() == "likes teak\n"
    assert (terminal.paths.reminders / "a.md").read_text() == "likes tea\n"


@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        ("USER.md:9", 1, "There is no line USER.md:9."),
        ("cats and dogs", 1, "No line of the notes has “cats and dogs”."),
        ("1 2 3 4", 2, "is too short"),
        ("ab", 2, "is too short"),
    ],
)
def test_what_is_not_there_is_said(terminal: Terminal, what: str, code: int, said: str) -> None:
    terminal.make_directory()
    terminal.write("USER.md", "Ada\n")
    assert said in terminal.refused("forget", what, code=code)
    assert user_file(terminal) == ["Ada"]


def test_a_line_can_be_completed(terminal: Terminal) -> None:
    terminal.write("USER.md", "Ada\n\nlikes tea\n")
    said = terminal.done("completion", "ask", "zsh", "forget", "USER")
    assert [line.split("\t")[0] for line in said.splitlines()[1:]] == ["USER.md:1", "USER.md:3"]


def test_a_sentence_is_found_nowhere_afterwards(planted: Terminal) -> None:
    assert len(traces(planted)) > 10
    said = planted.done("forget", "--everywhere", "--yes", SENTENCE)
    assert traces(planted) == []
    for place in ("files", "the log", "run records", "other state", "transcripts", "history"):
        assert f"\n  {place}" in said
    assert "automatic copies" in said
    assert "The bot cannot reach: backups that you made; Discord; the server of your phone;" in said
    assert "cannot be undone" in said


def test_all_else_stays_as_it_was(planted: Terminal) -> None:
    before = planted.json("runs", "--since", "30d")["runs"]
    planted.done("forget", "--everywhere", "--yes", SENTENCE)
    assert user_file(planted) == [f"{OTHER}.", "I like coffee."]
    assert (planted.paths.downloads / "letter.txt").read_text() == f"{OTHER}. (forgotten)."
    texts = [json.loads(line)["text"] for line in planted.done("messages", "export").splitlines()]
    assert texts == ["(forgotten). What now?", "“(forgotten)” sounds bad.", OTHER, OTHER]
    (after,) = planted.json("runs", "--since", "30d")["runs"]
    assert {**before[0], "facts": 0} == {**after, "facts": 0}
    assert after["facts"]["job"] == "(forgotten)"
    assert "nothing is missing" in planted.done("runs", "check")
    (reminder,) = planted.json("reminder", "list")["reminders"]
    assert (reminder["id"], reminder["message"]) == ("old", "(forgotten)")
    assert "Tell the doctor: (forgotten)" in planted.done("tasks", "list")
    found = planted.json("history", "search", "ferns water")["messages"]
    assert len(found) == 2
    assert planted.json("history", "search", "ulcer")["messages"] == []
    (planted.paths.root / ".git" / "HEAD").read_text()
    assert planted.git("status", "--porcelain") == []
    assert len(planted.git("log", "--format=%s")) == 1


def test_a_change_that_had_it_is_listed_and_undone_without_it(planted: Terminal) -> None:
    planted.write("IDENTITY.md", f"{OTHER}.\nOn {SENTENCE.lower()}: ask.\n")
    planted.done("forget", "--everywhere", "--yes", SENTENCE)
    rows = {row["id"]: row for row in planted.json("changes", "--limit", "50")["changes"]}
    assert rows[CHANGED]["after"] == f"{OTHER}.\nOn (forgotten): ask.\n"
    assert rows[REMOVED]["place"] == "routines/(forgotten).md"
    for key in (CHANGED, REMOVED):
        planted.done("undo", key)
    assert (planted.paths.root / "IDENTITY.md").read_text() == f"{OTHER}.\n"
    assert (planted.paths.routines / "(forgotten).md").read_text().endswith("---\n(forgotten)\n")
    assert traces(planted) == []


def test_a_transcript_can_still_be_read(planted: Terminal) -> None:
    planted.done("forget", "--everywhere", "--yes", SENTENCE)
    folder = planted.home / ".claude" / "projects" / project_key(planted.paths.root)
    lines = (folder / f"{SESSION}.jsonl").read_text().splitlines()
    prompt, answer = map(json.loads, lines)
    assert prompt["message"]["content"] == "(forgotten) – was nun?"
    # A thought is signed, so a changed one would be refused.
    assert answer["message"]["content"] == [{"type": "text", "text": f"{OTHER}. (forgotten)."}]
    others = planted.home / ".claude" / "projects" / "-elsewhere"
    assert SENTENCE in next(others.iterdir()).read_text()


def test_a_line_can_be_forgotten_everywhere(planted: Terminal) -> None:
    said = planted.done("forget", "--everywhere", "--yes", "USER.md:2")
    assert "she said” is in:\n  files    USER.md:2, state/undo/0a1b2c3d.json\n  history" in said
    assert user_file(planted) == [f"{OTHER}.", "I like coffee."]
    assert not any("she said" in line for line in planted.git("log", "-p", "--all"))
    assert SENTENCE in planted.done("messages", "export")


def test_without_a_yes_nothing_is_changed(
    planted: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = traces(planted)
    for answer in ("", "n\n", "no\n"):
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        said = planted.done("forget", "--everywhere", SENTENCE)
        assert "Forget it in all these places? [y/N]" in said
        assert said.endswith("Nothing was changed.\n")
    assert traces(planted) == before
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n"))
    planted.done("forget", "--everywhere", SENTENCE)
    assert traces(planted) == []


def test_the_bot_must_be_stopped(planted: Terminal) -> None:
    before = traces(planted)
    with single_instance(planted.paths.bot_pid):
        said = planted.refused("forget", "--everywhere", "--yes", SENTENCE, code=1)
    assert "already running" in said
    assert traces(planted) == before


def test_a_word_of_the_program_itself_is_refused(planted: Terminal) -> None:
    for word in ("done", "routine", "Owner", "forgotten"):
        assert "Name more" in planted.refused("forget", "--everywhere", "--yes", word)
    assert "nothing is missing" in planted.done("runs", "check")


def test_what_is_nowhere_changes_nothing(planted: Terminal) -> None:
    said = planted.done("forget", "--everywhere", "the green house")
    assert said == "“the green house” is in none of the bot's places.\n"


def test_json_needs_a_yes_and_names_what_stays(planted: Terminal) -> None:
    (planted.paths.downloads / "ollim.db").write_bytes(b"\0\xff" + SENTENCE.encode())
    assert "--yes" in planted.refused("forget", "--everywhere", "--json", SENTENCE)
    answer = planted.run("forget", "--everywhere", "--yes", "--json", SENTENCE)
    said = json.loads(answer.out)
    assert said["places"]["the log"] == 2
    assert said["kept"] == ["downloads/ollim.db"]
    assert "Discord" in said["out_of_reach"]
    assert answer.code == 1
    assert "It is still in: downloads/ollim.db." in answer.err
    (planted.paths.downloads / "ollim.db").unlink()
    planted.done("forget", "--everywhere", "--yes", SENTENCE)


def test_a_line_that_a_killed_run_has_removed_is_not_taken_for_the_next_one(
    planted: Terminal,
) -> None:
    line = "My purple ulcer came back in 1987, she said."

    def kill(step: str) -> None:
        if step == "history":
            raise Killed

    passage = Passage.of(line)
    work = Forgetting(planted.paths, planted.environ, planted.now, passage, kill)
    with pytest.raises(Killed):
        work.run()
    assert user_file(planted) == [f"{OTHER}.", "I like coffee."]
    refused = planted.refused("forget", "--everywhere", "--yes", "the green house", code=1)
    assert f"Complete it first: `ollim-bot forget --everywhere '{line}'`" in refused
    assert "An earlier run was cut off" in planted.done(
        "forget", "--everywhere", "--yes", "USER.md:2"
    )
    assert user_file(planted) == [f"{OTHER}.", "I like coffee."]
    assert not any("she said" in each for each in planted.git("log", "-p", "--all"))


@pytest.mark.parametrize(
    "gone", [["refs/**/*"], ["refs/**/*", "index"], ["refs/**/*", "index", "objects/**/*"]]
)
def test_a_history_that_was_half_removed_begins_anew(planted: Terminal, gone: list[str]) -> None:
    for name in gone:
        for path in (planted.paths.root / ".git").glob(f"{name}/**/*" if name != "index" else name):
            if path.is_file():
                path.unlink()
    planted.done("forget", "--everywhere", "--yes", SENTENCE)
    assert traces(planted) == []
    assert planted.git("status", "--porcelain") == []


class Killed(BaseException):
    """The end of the process at a step."""


def test_a_run_that_is_killed_at_any_step_is_completed_by_the_next(
    planting: tuple[Path, Snapshot], planted: Terminal
) -> None:
    _, before = planting
    steps = list[str]()

    def run(reached: Callable[[str], None]) -> None:
        passage = Passage.of(SENTENCE)
        Forgetting(planted.paths, planted.environ, planted.now, passage, reached).run()

    def kill_at(number: int) -> Callable[[str], None]:
        left = [*range(number)]

        def reached(_: str) -> None:
            if not left:
                raise Killed
            left.pop()

        return reached

    run(steps.append)
    # Of the files that are written or renamed one after another, the last stands for all.
    last = {step.split()[0]: (number, step) for number, step in enumerate(steps)}
    assert {"rows", "free", "copies", "transcripts", "write", "rename", "history"} <= {*last}
    for number, step in last.values():
        shutil.rmtree(planted.home)
        before.write(planted.home)
        with pytest.raises(Killed):
            run(kill_at(number))
        assert planted.run("runs", "check").code == 0, step
        run(lambda _: None)
        assert traces(planted) == [], step
        assert not (planted.paths.state / "forgetting").exists()
