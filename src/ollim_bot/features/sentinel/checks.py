"""Checks the timer of the sentinel, and what it has left."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, timedelta

from ollim_bot.features.install.service import service_of
from ollim_bot.features.sentinel.sentinel_file import deliveries_left
from ollim_bot.kernel.base.errors import SupervisorFailed
from ollim_bot.kernel.base.instance import running_pid
from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.store.file_store import FormatIsNewer, Malformed
from ollim_bot.kernel.upkeep.findings import (
    Check,
    DoctorFinding,
    DoctorInput,
    Found,
    off,
    passed,
    warned,
)

# A machine that slept, or a run that waited for a moment, may have left out some.
_OVERDUE = timedelta(minutes=20)
_SET_ASIDE = "Run `ollim-bot`: it sets the file aside when it starts, and says so."
_UPDATE = "Run `ollim-bot update`: the newer version reads it."
_INSTALL = "Run `ollim-bot service install`."


def check_sentinel(given: DoctorInput) -> Found:
    paths = given.data.paths
    is_running = running_pid(paths.bot_pid) is not None
    yield from left_by_sentinel(paths, is_running=is_running)
    supervisor = service_of(paths, given.environ)
    if supervisor is None:
        yield off("not set up; `ollim-bot service install` does it together with the service")
        return
    missing = [path for path in supervisor.paths[1:] if not path.exists()]
    if missing:
        yield warned(f"its timer is missing: {missing[0]} is not there")
    else:
        said = ""
        with suppress(SupervisorFailed):
            said = supervisor.show(supervisor.jobs[1])
        yield sentinel_timer(said, given.local_now)


def left_by_sentinel(paths: DataPaths, *, is_running: bool) -> Found:
    """What the sentinel has delivered and the bot has not read."""
    name = f"state/{paths.sentinel.name}"
    try:
        left = deliveries_left(paths)
    except FormatIsNewer:
        yield warned(f"{name} is of a newer version", _UPDATE)
        return
    except Malformed as wrong:
        yield warned(f"{name} cannot be understood: {wrong}", _SET_ASIDE)
        return
    if left:
        told = f"{name} has {counted(len(left), 'message')} that the bot has not read"
        if unsent := sum(not one.through for one in left):
            told += f", and {unsent} of them did not reach you"
        restart = "`/restart` in the chat lets the bot read it."
        yield warned(told, restart if is_running else "Run `ollim-bot`: it reads it first.")


def sentinel_timer(said: str, now: datetime) -> DoctorFinding:
    """`said` is what the supervisor says of the timer; launchd has no word of its runs."""
    if re.search("ActiveState=(?!active)", said):
        return warned("its timer does not run")
    found = re.search(r"LastTriggerUSec=@([1-9]\d*)$", said, re.MULTILINE)
    if found is None:
        return passed("its timer is there, every 5 minutes")
    ran_at = datetime.fromtimestamp(int(found[1]), now.tzinfo)
    if now - ran_at > _OVERDUE:
        return warned(f"its timer last ran {describe(ran_at, now)}")
    return passed(f"it looks every 5 minutes, last {describe(ran_at, now)}")


CHECKS = (Check("sentinel", check_sentinel, _INSTALL, is_of_machine=True, place=300),)
