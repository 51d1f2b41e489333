"""The crash matrix: a scenario is run once, and again from each crash that it could have had."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from tests.kernel.conversation.crashing import StepCounter

# SQLite counts commits in the header of a database. Without them, equal rows are equal bytes.
_COUNTERS = (slice(24, 28), slice(92, 96))


class SurvivingState(Protocol):
    """Everything that survives a crash of the bot: its store, files, engine and chat services."""

    def copied(self) -> Self:
        """An independent copy of the present state, which the next run begins with."""

    def kept(self) -> Hashable:
        """The contents, for comparing two states."""

    async def run(self, counter: StepCounter) -> None:
        """Start the bot, let happen what has not happened yet, and wait until it is over."""


S = TypeVar("S", bound=SurvivingState)


@dataclass(frozen=True)
class Scenario(Generic[S]):
    """What happens, and what holds after it, at whatever step the bot crashes.

    `begin` makes the state of a bot that has not been started yet; its folder is empty. `check`
    asserts what must hold after the restart, and returns how it has ended; `outcomes` has all ends
    that there must be. Each of the names in `crosses` is part of the name of a step of the first
    run. The bot crashes at the step that begins with `since` and at all steps after it, before the
    step `until`; the others are the same in another scenario. With `crashes=2` it crashes a second
    time, at each step of the restart. `losses` are the states that one crash may leave.
    """

    begin: Callable[[Path], Awaitable[S]]
    check: Callable[[S], Awaitable[object]]
    since: str = ""
    until: str | None = None
    crosses: Sequence[str] = ()
    crashes: int = 1
    losses: Callable[[S], Iterable[tuple[str, S]]] = field(default=lambda state: [("", state)])
    outcomes: frozenset[object] = frozenset({None})


class CrashRecorder(StepCounter, Generic[S]):
    """Never crashes. `crashes` has, by step, a copy of the state that a crash there would leave.

    A state that is in `seen` is not recorded: it has been left by another crash.
    """

    def __init__(self, state: S, scenario: Scenario[S], seen: set[int]) -> None:
        super().__init__()
        self.crashes: list[tuple[str, S]] = []
        self._state = state
        self._since, self._until = scenario.since, scenario.until
        self._seen = seen

    def step(self, what: str) -> None:
        super().step(what)
        if not what.startswith(self._since) or self._until in self.steps:
            return
        self._since = ""
        known = hash(self._state.kept())
        if known not in self._seen:
            self._seen.add(known)
            self.crashes.append((f"crash at step {len(self.steps)}: {what}", self._state.copied()))


@contextmanager
def noted(where: str) -> Iterator[None]:
    """Say with each error where it was."""
    try:
        yield
    except BaseException as failed:
        failed.add_note(where)
        raise


async def crash_at_every_step(scenario: Scenario[Any], folder: Path) -> None:
    """Run the scenario without a crash, restart it from each crash, and check every end."""
    begun = await scenario.begin(folder)
    steps, left = await _crashed(begun, scenario, scenario.crashes, set())
    outcomes = set()
    for where, state in left:
        for lost, after in scenario.losses(state):
            with noted(where + lost):
                await after.run(StepCounter())
                outcomes.add(await scenario.check(after))
    assert outcomes == scenario.outcomes
    assert [each for each in scenario.crosses if not any(each in step for step in steps)] == []


async def _crashed(
    state: S, scenario: Scenario[S], crashes: int, seen: set[int]
) -> tuple[list[str], list[tuple[str, S]]]:
    """The steps of a run, and the states that are left by so many crashes, and by none."""
    recorder = CrashRecorder(state, scenario, seen)
    await state.run(recorder)
    left = recorder.crashes
    if crashes > 1:
        left = [
            (f"{first}, then {second}", twice)
            for first, once in recorder.crashes
            for second, twice in (await _crashed(once, scenario, crashes - 1, seen))[1]
        ]
    return recorder.steps, [*left, ("no crash", state)]


def rows_of(database: bytes) -> bytes:
    """The bytes of a database, without what differs between databases with the same rows."""
    content = bytearray(database)
    for counter in _COUNTERS:
        content[counter] = bytes(4)
    return bytes(content)
