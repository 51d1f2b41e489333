"""What the server itself saw: who took the lease and committed under it, and what was armed."""

from __future__ import annotations

from typing import Any

import psycopg
from devtools.localpostgres import LocalPostgres

# A connection names its process itself, in its address; a row of a step that failed vanishes.
_LOG = """
CREATE SCHEMA chaos;
CREATE TABLE chaos.lease_log (
    number BIGSERIAL, process TEXT, event TEXT, epoch BIGINT, was_free BOOLEAN, at TIMESTAMPTZ
);
CREATE FUNCTION chaos.note() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    event TEXT := CASE
        WHEN NEW.epoch <> OLD.epoch THEN 'taken'
        WHEN NEW.step <> OLD.step THEN 'step'
        WHEN NEW.until = '-infinity' THEN 'released'
        WHEN NEW.until <> OLD.until THEN 'renewed'
        ELSE 'other' END;
BEGIN
    INSERT INTO chaos.lease_log (process, event, epoch, was_free, at) VALUES (
        coalesce(current_setting('chaos.process', true), ''), event, NEW.epoch,
        OLD.until <= clock_timestamp() OR OLD.holder = NEW.holder, clock_timestamp()
    );
    RETURN NEW;
END $$;
CREATE TRIGGER chaos_note AFTER UPDATE ON lease FOR EACH ROW EXECUTE FUNCTION chaos.note();
"""
# At the commit: what is armed has its text in the same one. The jobs of the harness are reminders
# whose file has the name of their id.
_ARMING = """
CREATE TABLE chaos.armed_without_text (job TEXT);
CREATE FUNCTION chaos.note_arming() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    job TEXT := substring(NEW.value FROM '"job": ?"(r[0-9]+)"');
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM files WHERE path = 'reminders/' || job || '.md' AND is_current = 1
    ) THEN
        INSERT INTO chaos.armed_without_text VALUES (job);
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER chaos_arming AFTER INSERT ON ledger
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.state = 'armed' AND NEW.value ~ '"job": ?"r[0-9]+"')
    EXECUTE FUNCTION chaos.note_arming();
"""
_ARMED = "SELECT job FROM chaos.armed_without_text ORDER BY job"
_ROWS = """SELECT process, event, epoch, was_free, extract(epoch FROM at)::float8
    FROM chaos.lease_log WHERE event <> 'other' ORDER BY number"""
_LEADER = "SELECT holder, until > clock_timestamp() FROM lease"
_TAKER = "SELECT process FROM chaos.lease_log WHERE event = 'taken' ORDER BY number DESC LIMIT 1"


class SharedRows:
    """Asks the server for the rows of the bots, and for its own notes about their lease."""

    def __init__(self, server: LocalPostgres) -> None:
        self._server = server

    def begin(self) -> None:
        """Note from now on what happens to the lease; its table is there."""
        with self._connected() as connection:
            connection.execute(_LOG)

    def watch_arming(self) -> None:
        """Note from now on what is armed without its text; the tables of the bot are there."""
        with self._connected() as connection:
            connection.execute(_ARMING)

    def armed_without_text(self) -> list[dict[str, object]]:
        return [{"job": job} for (job,) in self.ask(_ARMED)]

    def ask(self, question: str) -> list[tuple[Any, ...]]:
        """Empty while there is no server, or no such table yet."""
        try:
            with self._connected() as connection:
                return connection.execute(question).fetchall()
        except (psycopg.OperationalError, psycopg.errors.UndefinedTable):
            return []

    def leader(self) -> str:
        """The name of the process that leads; empty if none does."""
        rows = self.ask(_LEADER)
        taken = self.ask(_TAKER) if rows and rows[0][1] else []
        return str(taken[0][0]) if taken else ""

    def lease_events(self) -> list[dict[str, object]]:
        names = ("process", "event", "epoch", "was_free", "at")
        return [dict(zip(names, row, strict=True)) for row in self.ask(_ROWS)]

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self._server.address, autocommit=True, connect_timeout=5)
