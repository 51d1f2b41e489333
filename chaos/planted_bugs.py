"""Bugs planted into a copy of the program, to prove that the harness finds bugs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "ollim_bot"


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """In `file`, `old` becomes `new`. The file has to contain `old` exactly once.

    `focus` has the steps that can find it. They come first, which saves time: a run without a
    focus has the same steps, only later.
    """

    name: str
    file: str
    old: str
    new: str
    focus: tuple[str, ...] = ()

    def applied(self, text: str) -> str:
        times = text.count(self.old)
        if times != 1:
            raise LookupError(f"{self.name}: {self.file} has its text {times} times, not once")
        return text.replace(self.old, self.new)


PLANTED_BUGS = (
    PlantedBug(
        "nothing is synced",
        "kernel/store/files.py",
        "        os.fsync(descriptor)\n",
        "        return\n",
        focus=(
            "after the folder's sync: tasks.md",
            "after the folder's sync: config.json",
            "after the folder's sync: ping_budget.json",
            "after the folder's sync: pending_updates.json",
            "after the folder's sync: fork.json",
            "cut the power",
        ),
    ),
    PlantedBug(
        "confirmed before it is sent",
        "kernel/conversation/delivery.py",
        "            attempt.tried_at = now\n",
        "            attempt.tried_at = now\n"
        "            await self._confirm(delivery, f'1{now:%d%H%M%S%f}')\n",
    ),
    PlantedBug(
        "acknowledged before it is on disk",
        "kernel/conversation/conversation.py",
        "        shown, item, is_for_agent = await self._state.transact(step)\n",
        "        shown, item, is_for_agent = accepted.as_message(), None, True\n"
        "        later = asyncio.get_running_loop().call_later\n"
        "        later(1.0, lambda: asyncio.ensure_future(self._state.transact(step)))\n",
        focus=("kill", "say on the page"),
    ),
    PlantedBug(
        "a call of a webhook is answered before it is on disk",
        "features/webhooks/reception.py",
        "            accepted = await self._calls.accept(call)\n",
        "            from ollim_bot.kernel.values.jobs import JobKind\n"
        "            from ollim_bot.kernel.values.occurrences import Occurrence\n"
        "            run = Occurrence(JobKind.WEBHOOK, call.hook, call.name)\n"
        "            accepted = Acceptance(run, is_new=True)\n"
        "            later = asyncio.get_running_loop().call_later\n"
        "            later(1.0, lambda: asyncio.ensure_future(self._calls.accept(call)))\n",
        focus=("kill after a call",),
    ),
    PlantedBug(
        "a task is ticked after the answer",
        "features/tasks/task_buttons.py",
        "        await self._store.transact(lambda tx: begin_click(tx, step))\n",
        "        noting = self._store.transact(lambda tx: begin_click(tx, step))\n"
        "        later = asyncio.get_running_loop().call_later\n"
        "        later(1.0, lambda: asyncio.ensure_future(noting))\n"
        "        later(1.0, lambda: self._change(step, may_be_there=True))\n"
        "        return\n",
        focus=("kill after a tick",),
    ),
    PlantedBug(
        "a token is not reserved",
        "kernel/conversation/message_poster.py",
        "verdict = tx.budget.take(pay)\n",
        "_, verdict = pay(tx.budget.get())\n",
        focus=("run a routine", "call a webhook"),
    ),
    PlantedBug(
        "updates are popped without a claim",
        "kernel/conversation/turn_runner.py",
        "replace(taken, claim=claim, in_fork=dialogue.in_fork)",
        "replace(taken, in_fork=dialogue.in_fork)",
        focus=("kill as updates are taken", "before the removal: pending_updates.json"),
    ),
    PlantedBug(
        "the nonce is new each time",
        "kernel/store/delivery_rows.py",
        'f"{base} {part}".encode()',
        'f"{base} {part} {datetime.now()}".encode()',
        focus=("Discord: answer to a sending lost", "Discord: sending hangs, done", "remind"),
    ),
    PlantedBug(
        "a click is not marked as used",
        "kernel/changes/item_answers.py",
        "    before = tx.due_items.get_open(key)\n    if before is None:\n",
        "    before = tx.due_items.get(key)\n    if before is None:\n",
        focus=("snooze twice",),
    ),
    PlantedBug(
        "catch-up begins at the wrong message",
        "surfaces/discord/direct_messages.py",
        "found = await self._channel.after(start)",
        "found = (await self._channel.after(start))[1:]",
        focus=("kill before an answer", "Discord away"),
    ),
    PlantedBug(
        "a moment is run without a claim",
        "kernel/schedule/dispatch.py",
        "            return tx.ledger.claim(due.occurrence, found_at, facts)\n",
        "            tx.ledger.append(LedgerRow(found_at, 'due', due.occurrence, facts))\n"
        "            return True\n",
        focus=(
            "remind",
            "kill",
            "before the removal: reminders",
            "before the folder's sync: reminders",
        ),
    ),
    PlantedBug(
        "a reminder is removed before it is delivered",
        "kernel/schedule/dispatch.py",
        "        is_delivering = asyncio.Event()\n",
        "        if isinstance(due.job, Reminder):\n"
        "            await self._must.finish(due, is_delivered=False)\n"
        "        is_delivering = asyncio.Event()\n",
        focus=(
            "remind",
            "before the folder's sync: reminders",
            "after the folder's sync: reminders",
        ),
    ),
    PlantedBug(
        "drafts of a crash are left behind",
        "surfaces/discord/drafts.py",
        "        await self._caught_up()\n        seen: list[ReceivedMessage] = []\n",
        "        if refs or newest:\n            return\n"
        "        seen: list[ReceivedMessage] = []\n",
        focus=("kill", "say on Discord"),
    ),
    PlantedBug(
        "a calendar that cannot be read loses its events",
        "kernel/values/calendar.py",
        "        return self._replace(problem=problem, failing_since=self.failing_since or now)\n",
        "        since = self.failing_since or now\n"
        "        return self._replace(events=(), problem=problem, failing_since=since)\n",
        focus=("calendar away", "calendar answers garbage", "calendar is cut off"),
    ),
    PlantedBug(
        "what the new clock jumps over is forgotten",
        "kernel/values/travel.py",
        "        return instant(old, self.after).astimezone(UTC)\n",
        "        return self.at.astimezone(UTC)\n",
        focus=("travel",),
    ),
    PlantedBug(
        "what the phone may have got is never found",
        "features/phone/ntfy_channel.py",
        "            if each.kind == MESSAGE and each.sequence == nonce:\n",
        "            if not each.id:\n",
        focus=("phone: answer to a push lost", "kill before the phone confirms"),
    ),
    PlantedBug(
        "a press is noted before it is done",
        "features/phone/ntfy_channel.py",
        "        is_done = button is not None and await self._pressed(service, button)\n",
        "        if button is not None and event is not None:\n"
        "            read = event.id\n"
        "            await self._store.transact(lambda tx: tx.push_buttons.use(text))\n"
        "            await self._store.transact(\n"
        "                lambda tx: tx.push.change(lambda state: state.having_read(read))\n"
        "            )\n"
        "            await asyncio.sleep(1.0)\n"
        "        is_done = button is not None and await self._pressed(service, button)\n",
        focus=("kill after a press",),
    ),
    PlantedBug(
        "presses are read from now on",
        "features/phone/ntfy_channel.py",
        "        since = state.last_reply or str(int(self._pairing.paired_at.timestamp()))\n",
        "        since = str(int(self._clock.now().timestamp()) + (not state))\n",
        focus=("press while the bot is dead",),
    ),
)


@contextmanager
def program_with_bug(bug: PlantedBug) -> Iterator[Mapping[str, str]]:
    """Yields what to add to the environment of a bot that runs the copy with this bug."""
    changed = bug.applied((PACKAGE / bug.file).read_text())
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        copy = Path(folder) / "src" / PACKAGE.name
        shutil.copytree(PACKAGE.parent, copy.parent)
        (Path(folder) / "docs").symlink_to(PACKAGE.parent.parent / "docs")
        (copy / bug.file).write_text(changed)
        yield {"PYTHONPATH": str(copy.parent)}


def problems_of_planted_bugs(bugs: Sequence[PlantedBug] = PLANTED_BUGS) -> list[str]:
    """One sentence for each bug whose `old` text is not in the source exactly once."""
    problems = []
    for bug in bugs:
        try:
            bug.applied((PACKAGE / bug.file).read_text())
        except (LookupError, OSError) as wrong:
            problems.append(str(wrong))
    return problems
