"""Planted bugs that the simulated months have to find."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from chaos.planted_bugs import PLANTED_BUGS as CHAOS_BUGS
from chaos.planted_bugs import PlantedBug, program_with_bug

_ROOT = Path(__file__).resolve().parents[2]

PLANTED_BUGS = (
    *(each for each in CHAOS_BUGS if each.name == "a token is not reserved"),
    PlantedBug(
        "what was missed twice is noted once",
        "kernel/schedule/catch_up.py",
        "        for moment in missed.older:\n",
        "        for moment in missed.older[1:]:\n",
    ),
    PlantedBug(
        "late is not said",
        "kernel/values/schedule.py",
        "elapsed(due, now) > STILL_ON_TIME\n",
        "elapsed(due, now) > STILL_ON_TIME * 9999\n",
    ),
    PlantedBug(
        "a time that was slept through has no end",
        "kernel/changes/item_answers.py",
        "        skip_planned(tx, item, SkipReason.SUPERSEDED, NEWER_CAME)\n",
        "",
    ),
    PlantedBug(
        "a time is planned and not shown",
        "kernel/changes/item_answers.py",
        "    tx.messages.add(message)\n    tx.ledger.append(done)\n",
        "    tx.ledger.append(done)\n",
    ),
    PlantedBug(
        "a heads-up comes after its moment",
        "kernel/schedule/extra_times.py",
        "number == len(found) and each.moment > now\n",
        "number == len(found)\n",
    ),
    PlantedBug(
        "a heads-up is not noted",
        "kernel/schedule/extra_times.py",
        "            tx.ledger.append(begun, heads_up_end(each.occurrence, title, reason, now))\n",
        "            tx.ledger.append(begun)\n",
    ),
    PlantedBug(
        "pings come in the quiet",
        "kernel/conversation/message_poster.py",
        "        until = quiet_until(quiet_settings(tx), tx.now)\n",
        "        until = None\n",
    ),
    PlantedBug(
        "a digest has its newest line only",
        "features/quiet.py",
        "    digest = Digest.of(held, now)\n",
        "    digest = Digest.of(held[-1:], now)\n",
    ),
    PlantedBug(
        "the cost of a failed attempt is not noted",
        "kernel/conversation/background.py",
        "            tx.usage.add(*outcome.usage_rows(occurrence, tx.now))\n",
        "            if is_over:\n"
        "                tx.usage.add(*outcome.usage_rows(occurrence, tx.now))\n",
    ),
    PlantedBug(
        "a file takes its place before it is synced",
        "kernel/store/files.py",
        "        disk.sync(temporary)\n",
        "",
    ),
)


# One for each law of the quiet; found in weeks of quiet nights.
NIGHT_BUGS = (
    *(each for each in PLANTED_BUGS if "quiet" in each.name or "digest" in each.name),
    PlantedBug(
        "what was held follows its digest",
        "features/quiet.py",
        "    if len(held) == 1:\n",
        "    for each in held:\n"
        "        poster.add_to_log(tx, each.message)\n"
        "    if len(held) == 1:\n",
    ),
    PlantedBug(
        "what was answered is asked again",
        "features/quiet.py",
        "    if not item.is_open:\n        forget",
        "    if not item.is_open:\n        return held\n        forget",
    ),
    PlantedBug(
        "what waited is let go of",
        "features/quiet.py",
        "    if not item.is_open:\n        forget",
        "    if held.item:\n        forget",
    ),
    PlantedBug(
        "a nag that waited has no end",
        "kernel/changes/item_answers.py",
        "        hold(tx, HeldMessage(message), until)\n        tx.ledger.append(done)\n",
        "        hold(tx, HeldMessage(message), until)\n",
    ),
    PlantedBug(
        "an answered line keeps its buttons",
        "features/quiet.py",
        "await self._store.transact(lambda tx: redraw_digests(tx, self._poster))\n",
        "pass\n",
    ),
    PlantedBug(
        "a routine speaks in the quiet",
        "kernel/values/decision.py",
        "    if given.quiet_until is not None and may_wait:\n",
        "    if given.quiet_until is not None and may_wait and not job:\n",
    ),
    PlantedBug(
        "every moment of a routine runs after the quiet",
        "kernel/schedule/dispatch.py",
        "        return following is not None and following <= self._clock.now()\n",
        "        return False\n",
    ),
)


def run_with_bug(bug: PlantedBug, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m chaos.years` on a copy of the bot that has the bug."""
    with program_with_bug(bug) as settings:
        path = os.pathsep.join([settings["PYTHONPATH"], str(_ROOT)])
        return subprocess.run(
            [sys.executable, "-m", "chaos.years", *words],
            env={**os.environ, "PYTHONPATH": path},
            cwd=Path(settings["PYTHONPATH"]),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
