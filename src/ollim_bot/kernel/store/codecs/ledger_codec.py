"""The rows of the ledger as lines of JSON."""

from __future__ import annotations

from functools import lru_cache

from ollim_bot.kernel.store.codecs.plain import Form, JsonFormat, Layout, Wrong, lines_of
from ollim_bot.kernel.store.file_store import Malformed
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence

# The rows of an occurrence are mostly adjacent.
_parsed = lru_cache(maxsize=64)(Occurrence.parse)


def _occurrence(value: object) -> Occurrence:
    if not isinstance(value, str):
        raise Wrong("is not text")
    try:
        return _parsed(value)
    except ValueError as error:
        raise Malformed(str(error)) from None


OCCURRENCE: Form = (_occurrence, lambda occurrence: occurrence.id)
LEDGER_ROWS = lines_of(
    LedgerRow,
    JsonFormat(
        {LedgerRow: Layout(first=("ts", "occurrence"), rest="facts")},
        forms={Occurrence: OCCURRENCE},
    ),
)
