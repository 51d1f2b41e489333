"""State files are kept current after commits, and a person's edits of them count at a start."""

from __future__ import annotations

import json
import stat

from tests.store.places import NOW, Place

from ollim_bot.domain.sessions import SessionChange, SessionEvent, SessionId
from ollim_bot.domain.updates import PendingUpdate, PendingUpdates
from ollim_bot.store.database import Database


def with_session(place: Place, name: str) -> Database:
    database = place.open()
    database.run(lambda tx: tx.session.put(SessionId(name)))
    return database


def event(name: str) -> SessionEvent:
    return SessionEvent(SessionId(name), SessionChange.CREATED, NOW)


def history(place: Place) -> list[str]:
    content = (place.state / "session_history.jsonl").read_text()
    return [json.loads(line)["session_id"] for line in content.splitlines()]


def test_a_file_has_the_new_value_when_the_step_returns(place: Place) -> None:
    database = with_session(place, "abc")
    sessions = place.state / "sessions.json"
    assert sessions.read_text() == "abc"
    assert stat.S_IMODE(sessions.stat().st_mode) == 0o600
    database.run(lambda tx: tx.session.put(None))
    assert not sessions.exists()


def test_a_hand_edit_while_the_bot_was_stopped_becomes_the_value(place: Place) -> None:
    with_session(place, "abc").close()
    (place.state / "sessions.json").write_text("by-hand\n")
    database = place.open()
    assert database.run(lambda tx: tx.session.get()) == "by-hand"
    assert place.told == []
    assert (place.state / "sessions.json").read_text() == "by-hand"


def test_a_file_removed_by_hand_takes_its_value_with_it(place: Place) -> None:
    with_session(place, "abc").close()
    (place.state / "sessions.json").unlink()
    assert place.open().run(lambda tx: tx.session.get()) is None
    assert place.told == []


def test_a_file_that_nobody_changed_changes_nothing(place: Place) -> None:
    for name in ("abc", "def", "ghi"):
        with_session(place, name).close()
        assert place.open().run(lambda tx: tx.session.get()) == name
    assert place.told == []


def test_what_cannot_be_understood_is_set_aside_and_the_value_stays(place: Place) -> None:
    database = place.open()
    waiting = PendingUpdates((PendingUpdate(NOW, "news", "9f3c01aa"),))
    database.run(lambda tx: tx.updates.put(waiting))
    database.close()
    path = place.state / "pending_updates.json"
    written = path.read_bytes()
    path.write_text("{ not JSON")
    database = place.open()
    assert database.run(lambda tx: tx.updates.get()) == waiting
    assert path.read_bytes() == written
    (kept,) = place.state.glob("pending_updates.json.corrupt-*")
    assert kept.read_text() == "{ not JSON"
    assert len(place.told) == 1
    assert kept.name in place.told[0]


def test_a_file_of_a_newer_version_is_left_as_it_is(place: Place) -> None:
    place.open().close()
    path = place.state / "config.json"
    path.write_text('{"version": 99}')
    database = place.open()
    database.run(lambda tx: tx.config.put(tx.config.get()))
    database.run(lambda tx: tx.session.put(SessionId("abc")))
    assert path.read_text() == '{"version": 99}'
    assert "newer" in place.told[0]


def killed_before_its_mirror(place: Place, before: str, after: str) -> None:
    """As a kill leaves it between the commit of `after` and its mirror."""
    database = with_session(place, before)
    path = place.state / "sessions.json"
    # A folder of that name keeps the mirror from being written; the step happens all the same.
    path.unlink()
    path.mkdir()
    (path / "in-the-way").touch()
    database.run(lambda tx: tx.session.put(SessionId(after)))
    (path / "in-the-way").unlink()
    path.rmdir()
    path.write_text(before)


def test_a_commit_without_its_mirror_is_mirrored_at_the_next_start(place: Place) -> None:
    killed_before_its_mirror(place, "old", "new")
    assert place.open().run(lambda tx: tx.session.get()) == "new"
    assert (place.state / "sessions.json").read_text() == "new"
    assert place.told == []


def test_a_hand_edit_wins_over_a_commit_without_its_mirror_which_is_kept(place: Place) -> None:
    killed_before_its_mirror(place, "old", "new")
    (place.state / "sessions.json").write_text("by-hand")
    assert place.open().run(lambda tx: tx.session.get()) == "by-hand"
    (kept,) = place.state.glob("sessions.json.unapplied-*")
    assert kept.read_text() == "new"
    assert kept.name in place.told[0]


def test_a_mirror_that_could_not_be_written_is_written_later(place: Place) -> None:
    database = with_session(place, "old")
    path = place.state / "sessions.json"
    path.unlink()
    path.mkdir()
    (path / "in-the-way").touch()
    database.run(lambda tx: tx.session.put(SessionId("new")))
    assert database.run(lambda tx: tx.session.get()) == "new"
    (path / "in-the-way").unlink()
    path.rmdir()
    database.write_mirrors()
    assert path.read_text() == "new"


def test_a_first_value_without_its_mirror_stays(place: Place) -> None:
    database = place.open()
    path = place.state / "sessions.json"
    path.mkdir()
    (path / "in-the-way").touch()
    database.run(lambda tx: tx.session.put(SessionId("first")))
    (path / "in-the-way").unlink()
    path.rmdir()
    assert place.open().run(lambda tx: tx.session.get()) == "first"
    assert place.told == []


def test_no_file_is_read_while_the_bot_runs(place: Place) -> None:
    database = with_session(place, "abc")
    (place.state / "sessions.json").write_text("by-hand")
    assert database.run(lambda tx: tx.session.get()) == "abc"


def test_a_second_process_leaves_the_newest_value_in_the_file(place: Place) -> None:
    database = with_session(place, "abc")
    other = place.open(is_holder=False)
    other.run(lambda tx: tx.session.put(SessionId("of the other".replace(" ", "-"))))
    database.run(lambda tx: tx.memory.put({"a": 1}))
    assert (place.state / "sessions.json").read_text() == "of-the-other"
    database.run(lambda tx: tx.session.put(SessionId("ours")))
    other.close()
    database.close()
    assert place.open().run(lambda tx: tx.session.get()) == "ours"
    assert place.told == []


def test_a_file_that_may_not_be_read_is_left_alone_and_told(place: Place) -> None:
    with_session(place, "abc").close()
    path = place.state / "sessions.json"
    path.unlink()
    path.symlink_to(path)
    database = place.open()
    assert database.run(lambda tx: tx.session.get()) == "abc"
    database.run(lambda tx: tx.session.put(SessionId("def")))
    assert path.is_symlink()
    assert "cannot be read" in place.told[0]


def test_session_events_are_appended_to_their_file(place: Place) -> None:
    database = place.open()
    database.run(lambda tx: tx.session_history.append(event("a"), event("b")))
    database.run(lambda tx: tx.session_history.append(event("c")))
    assert history(place) == ["a", "b", "c"]


def test_events_missing_at_the_end_of_the_file_are_added_at_a_start(place: Place) -> None:
    database = place.open()
    database.run(lambda tx: tx.session_history.append(event("a"), event("b"), event("c")))
    database.close()
    path = place.state / "session_history.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:10])
    place.open().close()
    assert history_of_whole_lines(place) == ["a", "b", "c"]


def history_of_whole_lines(place: Place) -> list[str]:
    lines = (place.state / "session_history.jsonl").read_bytes().splitlines()
    return [json.loads(line)["session_id"] for line in lines if line.endswith(b"}")]


def test_an_event_that_a_person_added_becomes_part_of_the_history(place: Place) -> None:
    database = place.open()
    database.run(lambda tx: tx.session_history.append(event("a"), event("b")))
    database.close()
    path = place.state / "session_history.jsonl"
    first, second = path.read_bytes().splitlines(keepends=True)
    added = first.replace(b'"a"', b'"by-hand"')
    path.write_bytes(first + added + second)
    events = place.open().run(lambda tx: tx.session_history.all())
    assert [each.session_id for each in events] == ["a", "by-hand", "b"]
    assert history(place) == ["a", "by-hand", "b"]


def test_a_value_that_comes_back_does_not_make_the_file_of_another_process_a_hand_edit(
    place: Place,
) -> None:
    database = with_session(place, "ours")
    other = place.open(is_holder=False)
    other.run(lambda tx: tx.session.put(SessionId("theirs")))
    path = place.state / "sessions.json"
    path.unlink()
    path.mkdir()
    (path / "in-the-way").touch()
    # Committed, and killed before its mirror: the file is still that of the other process.
    database.run(lambda tx: tx.session.put(SessionId("ours")))
    (path / "in-the-way").unlink()
    path.rmdir()
    path.write_text("theirs")
    assert place.open().run(lambda tx: tx.session.get()) == "ours"
    assert place.told == []
