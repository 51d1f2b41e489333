"""Damage to a line of a log, as a hand or a faulty disk may do it."""

from __future__ import annotations

import json

from hypothesis import strategies as st
from tests.domain.strategies import json_values


def damaged(line: bytes, data: st.DataObject) -> bytes:
    """With another value in one of its fields, on whichever level."""
    fields = json.loads(line)
    target = fields
    name = data.draw(st.sampled_from(sorted(target)))
    while isinstance(target[name], dict) and target[name] and data.draw(st.booleans()):
        target = target[name]
        name = data.draw(st.sampled_from(sorted(target)))
    target[name] = data.draw(st.just("") | json_values)
    return json.dumps(fields).encode()
