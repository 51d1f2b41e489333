"""After any edits, the index holds the same jobs as a fresh reading of the folder."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from devtools.doubles.journal import RecordingJournal
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.kernel.schedule.job_index_scene import WRONG, JobIndexScene, routine

from ollim_bot.kernel.base.job_kinds import JobKey, JobKind
from ollim_bot.kernel.changes.job_files import open_repositories
from ollim_bot.kernel.values.definitions import holder_among, mark_of
from ollim_bot.kernel.values.schedule import key_of

Step = Callable[[Path], None]

names = st.sampled_from(["a.md", "b.md", "c.md"])
ids = st.sampled_from(["one", "two", "three"])
texts = st.builds(
    routine, ids, st.sampled_from(["0 9 * * *", "@hourly"]), st.sampled_from(["Do it.", "Do not."])
) | st.sampled_from(["", WRONG, "---\nid: one\n"])


def writing(name: str, text: str) -> Step:
    def step(folder: Path) -> None:
        (folder / name).write_text(text)

    return step


def replacing(name: str, text: str) -> Step:
    def step(folder: Path) -> None:
        (folder / "swap").write_text(text)
        os.replace(folder / "swap", folder / name)

    return step


def renaming(name: str, other: str) -> Step:
    def step(folder: Path) -> None:
        with suppress(FileNotFoundError):
            os.replace(folder / name, folder / other)

    return step


def removing(name: str) -> Step:
    return lambda folder: (folder / name).unlink(missing_ok=True)


def touching(name: str) -> Step:
    def step(folder: Path) -> None:
        with suppress(FileNotFoundError):
            os.utime(folder / name)

    return step


steps = (
    st.builds(writing, names, texts)
    | st.builds(replacing, names, texts)
    | st.builds(renaming, names, names)
    | st.builds(removing, names)
    | st.builds(touching, names)
)
# How long to wait between a step and a refresh; None for no refresh.
pauses = st.none() | st.sampled_from([0.0, 0.3, 0.6, 2.0])


@settings(max_examples=examples(1.5))
@given(st.lists(st.tuples(steps, pauses), max_size=12))
def test_after_any_edits_the_index_holds_what_is_right_and_nothing_that_is_gone(
    edits: list[tuple[Step, float | None]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run_edits(Path(folder), edits))


async def run_edits(root: Path, edits: list[tuple[Step, float | None]]) -> None:
    scene = JobIndexScene(root)
    armed = dict(scene.index.jobs)
    for step, pause in edits:
        step(scene.paths.routines)
        if pause is not None:
            changes = await scene.refresh_later(pause)
            armed = {key: job for key, job in armed.items() if job not in changes.removed}
            armed |= {key_of(job.job): job for job in (*changes.added, *changes.changed)}
            assert armed == scene.index.jobs
    await scene.refresh()
    await scene.refresh_later()
    check(scene)


def check(scene: JobIndexScene) -> None:
    marks = {key: mark_of(indexed.job) for key, indexed in scene.index.jobs.items()}
    repositories = open_repositories(
        scene.paths, RecordingJournal(), choose_holder=lambda rivals: holder_among(rivals, marks)
    )
    report = repositories.routines.report()
    for right in report.jobs:
        assert scene.index.jobs[JobKey(JobKind.ROUTINE, right.item.spec.id)].job == right.item
    found = [stored.path for stored in report.jobs]
    for indexed in scene.index.jobs.values():
        shown = f"routines/{indexed.path.name}"
        assert indexed.path in found or any(shown in problem for problem in report.problems)
    assert bool(report.problems) == bool(scene.index.problems)
    assert set(scene.notices.known) >= set(scene.index.problems)
