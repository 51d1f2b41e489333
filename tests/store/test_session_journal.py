"""The history of sessions is written into the journal of the data directory."""

from __future__ import annotations

from pathlib import Path

from devtools.doubles.journal import RecordingJournal
from tests.storage.data_directory import NOW, DataDirectory

from ollim_bot.domain.ids import SessionId
from ollim_bot.domain.sessions import SessionChange, SessionEvent
from ollim_bot.store.opening import open_database


def test_each_session_event_is_noted_once_and_no_other_change_is(tmp_path: Path) -> None:
    data, journal = DataDirectory(tmp_path), RecordingJournal()
    database = open_database(
        data.paths, lambda: NOW, is_holder=True, report=data.problems.append, journal=journal
    )
    session = SessionId("0123456789")
    event = SessionEvent(session, SessionChange.BG_FORK, NOW)
    database.run(lambda tx: tx.session_history.append(event))
    database.run(lambda tx: tx.session.put(session))
    database.close()
    assert journal.notes == [(data.paths.session_history, "session bg_fork: 01234567")]
