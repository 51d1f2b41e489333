"""Each kind of job has all that the program makes its folders, lists, checks and commands from."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import import_module

import pytest

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.store.job_types import JOB_TYPES
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.shared_files import JobFolder
from ollim_bot.surfaces.terminal.main import GROUPS

MOMENT = datetime(2026, 11, 18, 9, tzinfo=UTC)


@pytest.mark.parametrize("kind", JobKind)
def test_a_kind_has_a_format_a_folder_and_a_group_of_commands(kind: JobKind) -> None:
    assert JOB_TYPES[kind].kind is kind
    assert JobFolder(kind.plural).kind is kind
    about, module = GROUPS[kind]
    assert (about, callable(import_module(module).run)) == (kind.about, True)


@pytest.mark.parametrize("kind", JobKind)
def test_only_what_is_called_has_occurrences_without_a_moment(kind: JobKind) -> None:
    by_hand = Occurrence.by_hand(kind, "x", MOMENT)
    assert Occurrence.parse(by_hand.id) == by_hand
    assert not by_hand.is_call
    if kind.has_moments:
        with pytest.raises(ValueError, match="moment"):
            Occurrence(kind, "x", "delivery-1")
    else:
        assert Occurrence.parse(f"{kind}:x:delivery-1#2").key == "delivery-1#2"


def test_nothing_else_is_a_folder_of_jobs() -> None:
    with pytest.raises(ValueError, match="no folder"):
        JobFolder("downloads")
