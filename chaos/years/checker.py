"""Checks all that the bot left behind, and counts what happened."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path

from chaos import checker
from chaos.evidence import END_STATES, Evidence
from chaos.quiet_invariants import STILL_WAITS
from chaos.years.after_done import comes_after_each_answer
from chaos.years.budget_invariant import ping_budget_is_exact
from chaos.years.cost_invariant import costs_are_those_of_the_model
from chaos.years.invariants import INVARIANTS, describe_end
from chaos.years.scene import YearsScene

_CERTAINLY_DONE_AFTER = timedelta(minutes=20)
# Here the ping budget is refilled, which `ping_budget_is_exact` checks, and quiet hours may last
# longer than the time to settle.
_IGNORED_FINDINGS = ("pings have cost", STILL_WAITS)
_MAIN_SESSION = "main"


def check_scene(scene: YearsScene) -> list[str]:
    """One sentence for each violation. The bot has to be idle."""
    record, data = scene.host.record, scene.host.data
    record.read_database()
    told = Evidence(data, record.folder).noted("told")
    record.replace("talks", [{"session": _MAIN_SESSION, "texts": [row["text"] for row in told]}])
    record.replace("sessions", [{"session": _MAIN_SESSION}])
    due = {
        name: at
        for name, at in scene.background_reminders.items()
        if at < scene.now - _CERTAINLY_DONE_AFTER
    }
    rows = [{"id": n, "at": at.isoformat(), "text": f"Drink {n}."} for n, at in due.items()]
    record.replace("orders", rows)
    found = [str(each) for each in checker.check(data, record.folder)]
    evidence = Evidence(data, record.folder)
    found = [each for each in found if not any(other in each for other in _IGNORED_FINDINGS)]
    more = (ping_budget_is_exact, costs_are_those_of_the_model, comes_after_each_answer)
    return found + [
        each for invariant in (*INVARIANTS, *more) for each in invariant(scene, evidence)
    ]


def ledger_check(data: Path) -> list[str]:
    """The complaint of `ollim-bot runs check`, if it has one."""
    done = subprocess.run(
        [sys.executable, "-m", "ollim_bot", "runs", "check"],
        env={**os.environ, "HOME": str(data.parent), "OLLIM_DATA_DIR": str(data)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return [] if done.returncode == 0 else [f"`runs check`: {done.stderr.strip()[:1000]}"]


def event_counts(scene: YearsScene) -> Counter[str]:
    """How often each kind of event happened."""
    evidence = Evidence(scene.host.data, scene.host.record.folder)
    counted = Counter(describe_end(row) for row in evidence.ledger if row["state"] in END_STATES)
    counted["messages"] = len(evidence.messages)
    counted["starts"] = scene.host.starts
    answers = (len(each.answers) for each in scene.after_done.values())
    counted["answers that set a moment"] = sum(answers)
    counted["requests that cost"] = len(scene.engine.bills)
    counted["pings held"] = sum(row["state"] == "held" for row in evidence.ledger)
    digests = (row for row in evidence.messages if str(row["id"]).startswith("digest-"))
    counted["digests"] = len([*digests])
    called = [row for row in evidence.model if row["event"] == "called" and row["mark"][0] == "p"]
    counted["pings refused"] = sum(not row["is_done"] for row in called)
    asked = (row for row in evidence.model if row["event"] == "asked")
    counted["prompts that say late"] = sum("[late: " in row["prompt"] for row in asked)
    return counted
