"""Routines that come after they are done: the owner answers them, and takes answers back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime, time, timedelta
from random import Random

from chaos.evidence import Evidence, moment
from chaos.years.due_times import utc_instant
from chaos.years.owner_actions import Action, click
from chaos.years.scene import AfterDoneRoutine, YearsScene

_MOST = 4
_TITLE = "Feed "
# The bot may be off for days, and a clock may be set.
_CERTAINLY_CAME_AFTER = timedelta(days=12)


async def make(scene: YearsScene, rng: Random) -> None:
    if len(scene.after_done) >= _MOST:
        return
    name, days = scene.new_name("d"), rng.choice((1, 2, 5))
    at = time(rng.choice((2, 9, 18)), 30)
    scene.after_done[name] = AfterDoneRoutine(days, at)
    first = scene.host.clock.now().date()
    fields = {"after-done": f"{days} days", "at": f'"{at:%H:%M}"', "from": first}
    more = {"must": "true", "plain": "true"}
    scene.write(f"routines/{name}.md", {"id": name, **fields, **more}, f"{_TITLE}{name}.")
    _expect(scene, scene.after_done[name], 0)


async def answer(scene: YearsScene, rng: Random) -> None:
    """Answer one that is open, and sometimes take that back at once."""
    found = scene.host.chat.find_button("Done", _TITLE)
    if found is None:
        return
    routine = scene.after_done[found.title.removeprefix(_TITLE).removesuffix(".")]
    answered_at, answered = scene.now, await click(scene, found)
    if answered is None:
        routine.possible += 1
    elif not answered.is_error:
        routine.answers.append(answered_at)
        _expect(scene, routine, routine.days)
        if rng.random() < 0.2:
            await _take_back(scene, routine)


async def _take_back(scene: YearsScene, routine: AfterDoneRoutine) -> None:
    found = scene.host.chat.find_button("Undo", _TITLE)
    if found is not None:
        await click(scene, found)
        routine.answers.pop()
        routine.possible += 1


def _expect(scene: YearsScene, routine: AfterDoneRoutine, days: int) -> None:
    day = scene.host.clock.now().date() + timedelta(days=days)
    wall = datetime.combine(day, routine.at)
    scene.host.pacer.add_due_times([utc_instant(wall, scene.host.zone)])


def comes_after_each_answer(scene: YearsScene, evidence: Evidence) -> Iterator[str]:
    """It comes once, then once for each answer, and after each of them."""
    came: defaultdict[str, list[datetime]] = defaultdict(list)
    for row in evidence.ledger:
        if row["state"] == "due" and "#" not in row["occurrence"]:
            _, job, at = row["occurrence"].split(":", 2)
            if job in scene.after_done:
                came[job].append(moment(at))
    for name, routine in scene.after_done.items():
        most = 1 + len(routine.answers) + routine.possible
        if len(came[name]) > most:
            yield f"{name} came {len(came[name])} times, and at most {most} were to come"
        if routine.answers:
            last = routine.answers[-1]
            is_over = scene.now > last + timedelta(days=routine.days) + _CERTAINLY_CAME_AFTER
            if is_over and not any(at > last for at in came[name]):
                yield f"{name} was done at {last}, and has not come since"


ACTIONS: Mapping[str, Action] = {"make what follows an answer": make, "answer what follows": answer}
WEIGHTS: Mapping[str, int] = {"make what follows an answer": 1, "answer what follows": 5}
