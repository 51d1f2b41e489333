"""The accepted calls of jobs: their data, and by what the same call is known again.

The table has its name from webhooks; the kind of the job is in the id of the occurrence.
"""

from __future__ import annotations

from datetime import datetime

from ollim_bot.kernel.base.job_kinds import JobKey, JobKind
from ollim_bot.kernel.store.connection import (
    Statements,
    escaped,
    microseconds,
    moment_of,
    unescaped,
)
from ollim_bot.kernel.store.file_store import parse_object, render_json
from ollim_bot.kernel.store.run_ledger import LedgerRows
from ollim_bot.kernel.values.hook_jobs import KEPT_FOR, Acceptance, AcceptedCall, WebhookCall
from ollim_bot.kernel.values.occurrences import Occurrence

_ENDED = (
    "NOT EXISTS (SELECT 1 FROM occurrences"
    " WHERE occurrences.id = webhook_deliveries.occurrence AND is_open = 1)"
)


class WebhookDeliveries:
    def __init__(self, statements: Statements, ledger: LedgerRows) -> None:
        self._statements = statements
        self._ledger = ledger

    def accept(self, call: WebhookCall, now: datetime) -> Acceptance:
        """Claim an occurrence for the call and keep its data.

        A call with a key that the job accepted within `KEPT_FOR` is the same call: nothing
        changes, and the answer has the occurrence of the first.
        """
        rows = self._statements.rows(
            "SELECT occurrence FROM webhook_deliveries WHERE hook = ? AND key = ? AND at > ?",
            *(call.hook, call.key, microseconds(now - KEPT_FOR)),
        )
        known = [Occurrence.parse(unescaped(row[0])) for row in rows]
        if same := [one for one in known if one.kind is call.kind]:
            return Acceptance(same[0], is_new=False)
        occurrence = Occurrence(call.kind, call.hook, call.name)
        if self._ledger.has(occurrence):
            occurrence = Occurrence(call.kind, call.hook, f"{call.name}-{call.token}")
        self._ledger.claim(occurrence, now, {"job": call.title})
        self._statements.write(
            "webhook_deliveries",
            "INSERT INTO webhook_deliveries (occurrence, hook, key, at, fields)"
            " VALUES (?, ?, ?, ?, ?)",
            escaped(occurrence.id),
            call.hook,
            call.key,
            microseconds(now),
            render_json(dict(call.fields)).decode(),
        )
        return Acceptance(occurrence, is_new=True)

    def get(self, occurrence: Occurrence) -> AcceptedCall | None:
        """The accepted call of an occurrence; None if there is none, or it is forgotten."""
        found = self._statements.row(
            "SELECT at, fields FROM webhook_deliveries WHERE occurrence = ?", escaped(occurrence.id)
        )
        if found is None:
            return None
        fields = parse_object(found[1].encode())
        return AcceptedCall(occurrence, moment_of(found[0]), fields)

    def last_calls(self) -> dict[JobKey, datetime]:
        """When each job accepted its last call, of those within `KEPT_FOR`."""
        rows = self._statements.rows(
            "SELECT substr(occurrence, 1, instr(occurrence, ':') - 1) AS kind, hook, MAX(at)"
            " FROM webhook_deliveries GROUP BY kind, hook"
        )
        return {JobKey(JobKind(kind), hook): moment_of(at) for kind, hook, at in rows}

    def open_after(self, place: int) -> tuple[list[Occurrence], int]:
        """The calls without an end that were accepted after the place, in order, and a new place.

        Start at 0. Only what is new since then is read.
        """
        rows = self._statements.rows(
            "SELECT occurrences.id, seq FROM occurrences CROSS JOIN webhook_deliveries"
            " WHERE is_open = 1 AND seq > ? AND webhook_deliveries.occurrence = occurrences.id"
            " ORDER BY seq",
            place,
        )
        calls = [Occurrence.parse(unescaped(row[0])) for row in rows]
        return calls, int(rows[-1][1]) if rows else place

    def forget_data(self, occurrence: Occurrence) -> None:
        """Remove the data of a call that has ended; its key stays."""
        self._statements.write(
            "webhook_deliveries",
            f"UPDATE webhook_deliveries SET fields = '{{}}' WHERE occurrence = ? AND {_ENDED}",
            escaped(occurrence.id),
        )

    def forget_all_ended(self) -> None:
        """As `forget_data`, of all calls."""
        self._statements.write(
            "webhook_deliveries",
            f"UPDATE webhook_deliveries SET fields = '{{}}' WHERE fields <> '{{}}' AND {_ENDED}",
        )

    def forget_old(self, now: datetime) -> None:
        """Delete the data and keys of ended calls that are older than `KEPT_FOR`."""
        self._statements.write(
            "webhook_deliveries",
            f"DELETE FROM webhook_deliveries WHERE at <= ? AND {_ENDED}",
            microseconds(now - KEPT_FOR),
        )
