"""Bugs of the lease, planted into a copy of the program."""

from __future__ import annotations

from chaos.planted_bugs import PlantedBug
from chaos.standby.points import BEFORE_SEND, BEFORE_STEP, FREEZE, IN_STEP, SLEEP

STANDBY_BUGS = (
    PlantedBug(
        "a step does not compare its epoch",
        "../ollim_bot_standby/postgres/database.py",
        " AND epoch = {lease.epoch} RETURNING epoch",
        " OR epoch > 0 RETURNING epoch",
        focus=(f"{FREEZE} {BEFORE_STEP} until another leads",),
    ),
    PlantedBug(
        "the lease expires by the clock of the machine",
        "../ollim_bot_standby/postgres/lease.py",
        '                " AND (until < clock_timestamp() OR holder = $1)"\n',
        "                f\" AND (until < to_timestamp({__import__('time').time()})"
        ' OR holder = $1)"\n',
        focus=("kill the leader",),
    ),
    PlantedBug(
        "the deadline is by a clock that stops in sleep",
        "../ollim_bot_standby/held_lease.py",
        "    return time.clock_gettime(_BOOT_CLOCK)\n",
        "    return time.monotonic()\n",
        focus=(f"{SLEEP} {BEFORE_SEND} until another leads",),
    ),
    PlantedBug(
        "a message is sent without a look at the deadline",
        "kernel/conversation/delivery.py",
        "        if not self._may_act():\n"
        "            raise errors.Unreachable(_OTHERS_LEAD)\n"
        "        was_in_doubt = attempt.is_in_doubt\n",
        "        was_in_doubt = attempt.is_in_doubt\n",
        focus=(f"{FREEZE} {BEFORE_SEND} until another leads",),
    ),
    PlantedBug(
        "a file is stored in another step than what it arms",
        "../ollim_bot_standby/postgres/database.py",
        "                self.files.write(statements)\n",
        "                if '.tidy.' in work.__qualname__:\n"
        "                    self.files.write(statements)\n"
        "                else:\n"
        "                    self.files.__dict__['_sent'] = []\n",
        focus=("kill the leader",),
    ),
    PlantedBug(
        "a frozen step keeps its locks",
        "../ollim_bot_standby/postgres/connection.py",
        "SET idle_in_transaction_session_timeout = {{idle}};\n",
        "SET idle_in_transaction_session_timeout = 0;\n",
        focus=(f"{FREEZE} {IN_STEP} until another leads",),
    ),
)
