"""Looks at all that was left behind, and says what is wrong and what has happened how often."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path

from chaos import checker
from chaos.evidence import Evidence
from chaos.quiet_invariants import STILL_WAITS
from chaos.years.budget import the_budget_is_kept
from chaos.years.laws import ENDS, LAWS, end_of
from chaos.years.world import World

_DUE_FOR_SURE = timedelta(minutes=20)
# The bucket of these years is filled again, so that it has a law of its own.
# The quiet of a night may last longer than a rest.
_OF_OTHER_TIMES = ("pings have cost", STILL_WAITS)
_MAIN = "main"


def findings(world: World) -> list[str]:
    """Everything that is not as it has to be when all is quiet."""
    record, data = world.machine.record, world.machine.data
    record.read_database()
    told = Evidence(data, record.folder).noted("told")
    record.replace("talks", [{"session": _MAIN, "texts": [row["text"] for row in told]}])
    record.replace("sessions", [{"session": _MAIN}])
    due = {name: at for name, at in world.orders.items() if at < world.now - _DUE_FOR_SURE}
    rows = [{"id": n, "at": at.isoformat(), "text": f"Drink {n}."} for n, at in due.items()]
    record.replace("orders", rows)
    found = [str(each) for each in checker.check(data, record.folder)]
    evidence = Evidence(data, record.folder)
    found = [each for each in found if not any(other in each for other in _OF_OTHER_TIMES)]
    return found + [each for law in (*LAWS, the_budget_is_kept) for each in law(world, evidence)]


def runs_check(data: Path) -> list[str]:
    """What the program's own check says of its ledger."""
    done = subprocess.run(
        [sys.executable, "-m", "ollim_bot", "runs", "check"],
        env={**os.environ, "HOME": str(data.parent), "OLLIM_DATA_DIR": str(data)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return [] if done.returncode == 0 else [f"`runs check`: {done.stderr.strip()[:1000]}"]


def table(world: World) -> Counter[str]:
    """How often what happened."""
    evidence = Evidence(world.machine.data, world.machine.record.folder)
    counted = Counter(end_of(row) for row in evidence.ledger if row["state"] in ENDS)
    counted["messages"] = len(evidence.messages)
    counted["starts"] = world.machine.starts
    counted["pings held"] = sum(row["state"] == "held" for row in evidence.ledger)
    digests = (row for row in evidence.messages if str(row["id"]).startswith("digest-"))
    counted["digests"] = len([*digests])
    called = [row for row in evidence.model if row["event"] == "called" and row["mark"][0] == "p"]
    counted["pings refused"] = sum(not row["is_done"] for row in called)
    asked = (row for row in evidence.model if row["event"] == "asked")
    counted["prompts that say late"] = sum("[late: " in row["prompt"] for row in asked)
    return counted
