"""Run as a program: change the state while another process does too; print the claims it won.

Arguments: a data directory, a name and the number of steps.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from tests.kernel.store.scene import NOW, StoreScene

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.sessions import SessionChange, SessionEvent


def step(tx: Transaction, name: str, number: int) -> bool:
    facts = tx.memory.get()
    tx.memory.put({**facts, name: int(str(facts.get(name, 0))) + 1})
    session = SessionId(f"{name}-{number}")
    tx.session.put(session)
    tx.session_history.append(SessionEvent(session, SessionChange.CREATED, NOW))
    at = NOW - timedelta(minutes=number)
    return tx.ledger.claim(Occurrence.scheduled(JobKind.REMINDER, "call", at), NOW)


def main() -> None:
    scene, name, count = StoreScene(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
    database = scene.open(is_holder=False)
    won = 0
    for number in range(count):
        won += database.run(lambda tx, number=number: step(tx, name, number))  # type: ignore[misc]
    print(won)
    scene.close()


if __name__ == "__main__":
    main()
