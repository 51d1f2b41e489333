"""Damage to a line of a log, as by a manual edit or a faulty disk."""

from __future__ import annotations

import json

from hypothesis import strategies as st
from tests.domain.strategies import json_values


def damaged(line: bytes, data: st.DataObject) -> bytes:
    """The line with another value in one of its fields, at any level."""
    fields = json.loads(line)
    target = fields
    name = data.draw(st.sampled_from(sorted(target)))
    while isinstance(target[name], dict) and target[name] and data.draw(st.booleans()):
        target = target[name]
        name = data.draw(st.sampled_from(sorted(target)))
    target[name] = data.draw(st.just("") | json_values)
    return json.dumps(fields).encode()
