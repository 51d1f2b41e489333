"""The owner's wish to have a job run now, on its way to whoever runs jobs."""

from __future__ import annotations

from collections.abc import Callable

from ollim_bot.domain.jobs import Job


class ByHand:
    """Whoever runs jobs is put together after the conversation, and says so with `served_by`."""

    def __init__(self) -> None:
        self._run: Callable[[Job], bool] = lambda _: False

    def served_by(self, run: Callable[[Job], bool]) -> None:
        """`run` begins a run by hand, or returns False if one of that job goes on already."""
        self._run = run

    def __call__(self, job: Job) -> bool:
        return self._run(job)
