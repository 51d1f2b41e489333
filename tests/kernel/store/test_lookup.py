"""What is imported when it is first used is where its place says, and of the annotated type."""

from __future__ import annotations

import re

import pytest

from ollim_bot.kernel.store.connection import look_up
from ollim_bot.kernel.store.records import Records, RecordSpec
from ollim_bot.kernel.store.transaction import RepositorySpec, Transaction

SPECS = [
    (spec, owner.__annotations__[name])
    for owner in (Records, Transaction)
    for name, spec in vars(owner).items()
    if isinstance(spec, RecordSpec | RepositorySpec)
]


@pytest.mark.parametrize(("spec", "annotation"), SPECS)
def test_a_place_has_what_the_annotation_names(
    spec: RecordSpec[object] | RepositorySpec[object], annotation: str
) -> None:
    found = look_up(spec.place)
    if isinstance(found, type):
        assert re.fullmatch(rf"\w+\[{found.__name__}\]", annotation)
    else:
        assert spec.place.endswith(tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
        assert callable(found.decode)
