"""Which events of other programs count, and what of them is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.domain.hook_jobs import WebhookSpec
from ollim_bot.domain.jobs import JobSpec
from ollim_bot.domain.webhooks import is_wanted, picked, pointer_parts, read_object

SPEC = JobSpec(id="a", message="Look.")


@pytest.mark.parametrize(
    ("on", "event", "data", "is_named"),
    [
        ((), "", {}, True),
        (("push",), "push", {}, True),
        (("push",), "issues", {"action": "opened"}, False),
        (("issues",), "issues", {"action": "opened"}, True),
        (("issues.opened",), "issues", {"action": "opened"}, True),
        (("issues.opened",), "", {"action": "opened"}, False),
        (("opened",), "issues", {"action": "opened"}, True),
        (("invoice.paid",), "", {"type": "invoice.paid"}, True),
        (("invoice",), "", {"type": "invoice.paid"}, False),
        (("done", "failed"), "", {"action": "failed"}, True),
        (("done",), "", {"action": ["done"], "type": {"done": 1}, "event": "done"}, False),
    ],
)
def test_an_event_counts_if_it_is_named(
    on: tuple[str, ...], event: str, data: dict[str, object], is_named: bool
) -> None:
    assert is_wanted(WebhookSpec(SPEC, {}, on=on), event, data) is is_named


BODY = {"a": {"b/c": [10, {"~": "x"}], "": 1, "0": "zero"}, "n": None}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/a/b~1c/0", {"f": 10}),
        ("/a/b~1c/1/~0", {"f": "x"}),
        ("/a/", {"f": 1}),
        ("/a/0", {"f": "zero"}),
        ("/n", {"f": None}),
        ("/a/b~1c", {"f": [10, {"~": "x"}]}),
        ("/a/b~1c/2", {}),
        ("/a/b~1c/-1", {}),
        ("/a/b~1c/00", {}),
        ("/a/b~1c/-", {}),
        ("/n/x", {}),
        ("/x", {}),
    ],
)
def test_a_field_is_picked_by_its_pointer(pointer: str, value: dict[str, object]) -> None:
    assert picked(WebhookSpec(SPEC, {}, pick={"f": pointer}), BODY) == value


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=4), values, max_size=4))
def test_every_place_of_a_body_has_a_pointer_that_picks_it(body: dict[str, object]) -> None:
    def places(value: Any, path: str) -> list[tuple[str, object]]:
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        found = []
        for step, each in inner:
            at = f"{path}/{str(step).replace('~', '~0').replace('/', '~1')}"
            deeper = places(each, at) if isinstance(each, dict | list) else []
            found += [(at, each), *deeper]
        return found

    for pointer, value in places(body, ""):
        assert pointer_parts(pointer)
        assert picked(WebhookSpec(SPEC, {}, pick={"f": pointer}), body) == {"f": value}


@given(st.binary(max_size=30) | values.map(lambda value: json.dumps(value).encode()))
def test_a_body_is_an_object_or_nothing(body: bytes) -> None:
    found = read_object(body)
    assert found is None or json.loads(body) == found
