"""Full-text search in PostgreSQL, with the matches and the order of SQLite's.

The words are folded and split by us, and not by the server. Differences: a word is cut at 500
characters, and a phrase is not found behind the 16,383rd word of a message or behind the 255th
occurrence of its word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import log
from typing import NamedTuple

from ollim_bot.kernel.store.search_index import (
    INDEX_VERSION,
    LOG,
    RANKED,
    SearchIndex,
    conditions_of,
    row_of,
)
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.search import Search, Term

_LONGEST_WORD = 500
# The limit of the server is 1 MiB, with all that it keeps beside the words.
_MOST_BYTES = 500_000
_DEFINITION = """DROP TABLE IF EXISTS search;
CREATE TABLE search (
    seq BIGINT PRIMARY KEY,
    who TEXT NOT NULL,
    size BIGINT NOT NULL,
    text TEXT NOT NULL,
    words TSVECTOR NOT NULL
);
CREATE INDEX search_words ON search USING gin (words);
DELETE FROM search_state"""
# The constants of BM25, as SQLite has them.
_K1, _B, _LEAST_IDF = 1.2, 0.75, 1e-6


class TsvectorIndex(SearchIndex):
    """The words of every message by its `seq`, as `tsvector`, and as text for their number."""

    def begin(self, *, is_supported: bool = True) -> bool:
        if not is_supported or self.is_used:
            return super().begin(is_supported=is_supported)
        for statement in _DEFINITION.split(";\n"):
            self._statements.write(LOG, statement)
        self._statements.write(LOG, "INSERT INTO search_state (version) VALUES (?)", INDEX_VERSION)
        return True

    def add(self, seq: int, message: ChatMessage) -> None:
        who, text = row_of(message)
        words = _words(text)
        parts: list[str] = []
        size = 0
        for place, word in enumerate(words, 1):
            parts.append(f"{_quoted(word)}:{place}")
            size += len(parts[-1].encode())
            if size > _MOST_BYTES:
                break
        self._statements.write(
            LOG,
            "INSERT INTO search (seq, who, size, text, words)"
            " SELECT CAST(? AS BIGINT), CAST(? AS TEXT), CAST(? AS BIGINT), CAST(? AS TEXT),"
            " CAST(? AS tsvector) WHERE EXISTS (SELECT 1 FROM search_state WHERE version = ?)",
            seq,
            who,
            len(words),
            text,
            " ".join(parts),
            INDEX_VERSION,
        )

    def replace(self, seq: int, before: ChatMessage, after: ChatMessage) -> None:
        if self.is_used and row_of(before) != row_of(after):
            self._statements.write(LOG, "DELETE FROM search WHERE seq = ?", seq)
            self.add(seq, after)

    def find(self, search: Search) -> list[int]:
        conditions, arguments = conditions_of(search)
        terms = [Term(_words(" ".join(term.words)), term.is_beginning) for term in search.terms]
        if search.who is not None:
            conditions += " AND search.who = ?"
            arguments.append(search.who.value)
        rows = self._statements.rows(
            "SELECT search.seq, search.text FROM search"
            " JOIN messages ON messages.seq = search.seq"
            f" WHERE search.words @@ CAST(? AS tsquery) {conditions}"
            f" ORDER BY search.seq DESC LIMIT {RANKED}",
            " & ".join(map(_query, terms)),
            *arguments,
        )
        ranking = self._ranking(terms) if rows else None
        ranked = [(ranking.worth(_words(row[1])), -int(row[0])) for row in rows if ranking]
        return [-seq for _, seq in sorted(ranked)[: search.limit]]

    def _ranking(self, terms: Sequence[Term]) -> _Ranking:
        [(count, size)] = self._statements.rows("SELECT count(*), sum(size) FROM search")
        having = "SELECT count(*) FROM search WHERE words @@ CAST(? AS tsquery)"
        hits = [self._statements.number(having, _query(term)) for term in terms]
        weights = [
            (term, max(log((count - hit + 0.5) / (hit + 0.5)), _LEAST_IDF))
            for term, hit in zip(terms, hits, strict=True)
        ]
        # SQLite counts who spoke as one more word.
        return _Ranking(weights, (float(size) + count) / count)


class _Ranking(NamedTuple):
    weights: Sequence[tuple[Term, float]]
    mean_size: float

    def worth(self, words: tuple[str, ...]) -> float:
        """How well a message fits, rounded as for SQLite; the smallest is the best."""
        length = _K1 * (1 - _B + _B * (len(words) + 1) / self.mean_size)
        parts = []
        for term, weight in self.weights:
            times = _times(term, words)
            parts.append(weight * (times * (_K1 + 1)) / (times + length))
        return round(-sum(parts), 1)


def _words(folded: str) -> tuple[str, ...]:
    """The words as SQLite has them: it splits a folded "½" once more."""
    return tuple(re.findall(r"[^\W_]+", folded))


def _times(term: Term, words: tuple[str, ...]) -> int:
    if term.is_beginning and len(term.words) > 1:
        return len([*term.places([(word, 0, 0) for word in words])])
    if term.is_beginning:
        return sum(word.startswith(term.words[0]) for word in words)
    length = len(term.words)
    starts = (at for at, word in enumerate(words) if word == term.words[0])
    return sum(words[at : at + length] == term.words for at in starts)


def _query(term: Term) -> str:
    ending = ":*" if term.is_beginning else ""
    return "(" + " <-> ".join(map(_quoted, term.words)) + ending + ")"


def _quoted(word: str) -> str:
    plain = word[:_LONGEST_WORD].replace("\\", "\\\\").replace("'", "''")
    return f"'{plain}'"
