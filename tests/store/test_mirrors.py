"""State files are kept current after commits, and a person's edits of them count at a start."""

from __future__ import annotations

import json
import stat

from tests.store.scene import NOW, StoreScene

from ollim_bot.domain.ids import SessionId
from ollim_bot.domain.sessions import SessionChange, SessionEvent
from ollim_bot.domain.updates import PendingUpdate, PendingUpdates
from ollim_bot.store.database import Database
from ollim_bot.store.session_history import KeptHistory


def with_session(scene: StoreScene, name: str) -> Database:
    database = scene.open()
    database.run(lambda tx: tx.session.put(SessionId(name)))
    return database


def event(name: str) -> SessionEvent:
    return SessionEvent(SessionId(name), SessionChange.CREATED, NOW)


def history(scene: StoreScene) -> list[str]:
    content = (scene.state / "session_history.jsonl").read_text()
    return [json.loads(line)["session_id"] for line in content.splitlines()]


def test_a_file_has_the_new_value_when_the_step_returns(scene: StoreScene) -> None:
    database = with_session(scene, "abc")
    sessions = scene.state / "sessions.json"
    assert sessions.read_text() == "abc"
    assert stat.S_IMODE(sessions.stat().st_mode) == 0o600
    database.run(lambda tx: tx.session.put(None))
    assert not sessions.exists()


def test_a_hand_edit_while_the_bot_was_stopped_becomes_the_value(scene: StoreScene) -> None:
    with_session(scene, "abc").close()
    (scene.state / "sessions.json").write_text("by-hand\n")
    database = scene.open()
    assert database.run(lambda tx: tx.session.get()) == "by-hand"
    assert scene.problems == []
    assert (scene.state / "sessions.json").read_text() == "by-hand"


def test_a_file_removed_by_hand_takes_its_value_with_it(scene: StoreScene) -> None:
    with_session(scene, "abc").close()
    (scene.state / "sessions.json").unlink()
    assert scene.open().run(lambda tx: tx.session.get()) is None
    assert scene.problems == []


def test_a_file_that_nobody_changed_changes_nothing(scene: StoreScene) -> None:
    for name in ("abc", "def", "ghi"):
        with_session(scene, name).close()
        assert scene.open().run(lambda tx: tx.session.get()) == name
    assert scene.problems == []


def test_what_cannot_be_understood_is_set_aside_and_the_value_stays(scene: StoreScene) -> None:
    database = scene.open()
    waiting = PendingUpdates((PendingUpdate(NOW, "news", "9f3c01aa"),))
    database.run(lambda tx: tx.updates.put(waiting))
    database.close()
    path = scene.state / "pending_updates.json"
    written = path.read_bytes()
    path.write_text("{ not JSON")
    database = scene.open()
    assert database.run(lambda tx: tx.updates.get()) == waiting
    assert path.read_bytes() == written
    (kept,) = scene.state.glob("pending_updates.json.corrupt-*")
    assert kept.read_text() == "{ not JSON"
    assert len(scene.problems) == 1
    assert kept.name in scene.problems[0]


def test_a_file_of_a_newer_version_is_left_as_it_is(scene: StoreScene) -> None:
    scene.open().close()
    path = scene.state / "config.json"
    path.write_text('{"version": 99}')
    database = scene.open()
    database.run(lambda tx: tx.config.put(tx.config.get()))
    database.run(lambda tx: tx.session.put(SessionId("abc")))
    assert path.read_text() == '{"version": 99}'
    assert "newer" in scene.problems[0]


def killed_before_its_mirror(scene: StoreScene, before: str, after: str) -> None:
    """The state after a kill between the commit of `after` and the write of its mirror."""
    database = with_session(scene, before)
    path = scene.state / "sessions.json"
    # A folder of that name keeps the mirror from being written, but not the commit.
    path.unlink()
    path.mkdir()
    (path / "in-the-way").touch()
    database.run(lambda tx: tx.session.put(SessionId(after)))
    (path / "in-the-way").unlink()
    path.rmdir()
    path.write_text(before)


def test_a_commit_without_its_mirror_is_mirrored_at_the_next_start(scene: StoreScene) -> None:
    killed_before_its_mirror(scene, "old", "new")
    assert scene.open().run(lambda tx: tx.session.get()) == "new"
    assert (scene.state / "sessions.json").read_text() == "new"
    assert scene.problems == []


def test_a_hand_edit_wins_over_a_commit_without_its_mirror_which_is_kept(scene: StoreScene) -> None:
    killed_before_its_mirror(scene, "old", "new")
    (scene.state / "sessions.json").write_text("by-hand")
    assert scene.open().run(lambda tx: tx.session.get()) == "by-hand"
    (kept,) = scene.state.glob("sessions.json.unapplied-*")
    assert kept.read_text() == "new"
    assert kept.name in scene.problems[0]


def test_a_mirror_that_could_not_be_written_is_written_later(scene: StoreScene) -> None:
    database = with_session(scene, "old")
    path = scene.state / "sessions.json"
    path.unlink()
    path.mkdir()
    (path / "in-the-way").touch()
    database.run(lambda tx: tx.session.put(SessionId("new")))
    assert database.run(lambda tx: tx.session.get()) == "new"
    (path / "in-the-way").unlink()
    path.rmdir()
    database.write_mirrors()
    assert path.read_text() == "new"


def test_a_first_value_without_its_mirror_stays(scene: StoreScene) -> None:
    database = scene.open()
    path = scene.state / "sessions.json"
    path.mkdir()
    (path / "in-the-way").touch()
    database.run(lambda tx: tx.session.put(SessionId("first")))
    (path / "in-the-way").unlink()
    path.rmdir()
    assert scene.open().run(lambda tx: tx.session.get()) == "first"
    assert scene.problems == []


def test_no_file_is_read_while_the_bot_runs(scene: StoreScene) -> None:
    database = with_session(scene, "abc")
    (scene.state / "sessions.json").write_text("by-hand")
    assert database.run(lambda tx: tx.session.get()) == "abc"


def test_a_second_process_leaves_the_newest_value_in_the_file(scene: StoreScene) -> None:
    database = with_session(scene, "abc")
    other = scene.open(is_holder=False)
    other.run(lambda tx: tx.session.put(SessionId("of the other".replace(" ", "-"))))
    database.run(lambda tx: tx.memory.put({"a": 1}))
    assert (scene.state / "sessions.json").read_text() == "of-the-other"
    database.run(lambda tx: tx.session.put(SessionId("ours")))
    other.close()
    database.close()
    assert scene.open().run(lambda tx: tx.session.get()) == "ours"
    assert scene.problems == []


def test_a_file_that_may_not_be_read_is_left_alone_and_told(scene: StoreScene) -> None:
    with_session(scene, "abc").close()
    path = scene.state / "sessions.json"
    path.unlink()
    path.symlink_to(path)
    database = scene.open()
    assert database.run(lambda tx: tx.session.get()) == "abc"
    database.run(lambda tx: tx.session.put(SessionId("def")))
    assert path.is_symlink()
    assert "cannot be read" in scene.problems[0]


def test_session_events_are_appended_to_their_file(scene: StoreScene) -> None:
    database = scene.open()
    database.run(lambda tx: tx.session_history.append(event("a"), event("b")))
    database.run(lambda tx: tx.session_history.append(event("c")))
    assert history(scene) == ["a", "b", "c"]


def test_a_kept_history_has_the_events_added_or_put_in_place_since(scene: StoreScene) -> None:
    database, kept = scene.open(), KeptHistory()

    def seen() -> list[str]:
        events = database.run(lambda tx: kept.events(tx.session_history))
        return [each.session_id for each in events]

    assert seen() == []
    database.run(lambda tx: tx.session_history.append(event("a"), event("b")))
    assert seen() == ["a", "b"]
    database.run(lambda tx: tx.session_history.append(event("c")))
    assert seen() == ["a", "b", "c"]
    database.run(lambda tx: tx.session_history.replace([event("a"), event("x"), event("c")]))
    assert seen() == ["a", "x", "c"]
    database.run(lambda tx: tx.session_history.replace([]))
    assert seen() == []


def test_events_missing_at_the_end_of_the_file_are_added_at_a_start(scene: StoreScene) -> None:
    database = scene.open()
    database.run(lambda tx: tx.session_history.append(event("a"), event("b"), event("c")))
    database.close()
    path = scene.state / "session_history.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:10])
    scene.open().close()
    assert history_of_whole_lines(scene) == ["a", "b", "c"]


def history_of_whole_lines(scene: StoreScene) -> list[str]:
    lines = (scene.state / "session_history.jsonl").read_bytes().splitlines()
    return [json.loads(line)["session_id"] for line in lines if line.endswith(b"}")]


def test_an_event_that_a_person_added_becomes_part_of_the_history(scene: StoreScene) -> None:
    database = scene.open()
    database.run(lambda tx: tx.session_history.append(event("a"), event("b")))
    database.close()
    path = scene.state / "session_history.jsonl"
    first, second = path.read_bytes().splitlines(keepends=True)
    added = first.replace(b'"a"', b'"by-hand"')
    path.write_bytes(first + added + second)
    events = scene.open().run(lambda tx: tx.session_history.all())
    assert [each.session_id for each in events] == ["a", "by-hand", "b"]
    assert history(scene) == ["a", "by-hand", "b"]


def test_a_value_that_comes_back_does_not_make_the_file_of_another_process_a_hand_edit(
    scene: StoreScene,
) -> None:
    database = with_session(scene, "ours")
    other = scene.open(is_holder=False)
    other.run(lambda tx: tx.session.put(SessionId("theirs")))
    path = scene.state / "sessions.json"
    path.unlink()
    path.mkdir()
    (path / "in-the-way").touch()
    # A kill after the commit and before the mirror: the file is still from the other process.
    database.run(lambda tx: tx.session.put(SessionId("ours")))
    (path / "in-the-way").unlink()
    path.rmdir()
    path.write_text("theirs")
    assert scene.open().run(lambda tx: tx.session.get()) == "ours"
    assert scene.problems == []
