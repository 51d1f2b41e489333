"""Invariants of calendars: a subscription is kept, and a copy is one whole version of its feed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from chaos.evidence import Evidence, Row
from chaos.findings import Finding, missing, wrong

# The secret part of each address.
SECRET_PATH = "secret-of-"


@dataclass
class _Feed:
    """`is_subscribed` is None after a command without an answer.

    `allowed` has the titles of each version that the copy may have: the last one that the owner
    was told is read, and those offered since. `unexpected` has the titles of each copy that was
    seen and had none of these versions.
    """

    is_subscribed: bool | None = False
    allowed: list[Sequence[str]] = field(default_factory=list)
    unexpected: list[Sequence[str]] = field(default_factory=list)

    def allows(self, titles: Sequence[str]) -> bool:
        return sorted(titles) in [sorted(each) for each in self.allowed]

    def note(self, row: Row) -> None:
        match row["event"]:
            case "offered":
                self.allowed.append(row["titles"])
            case "read":
                self.allowed = self.allowed[self.allowed.index(row["titles"]) :]
            case "seen" if not self.allows(row["titles"]):
                self.unexpected.append(row["titles"])
            case "subscribed":
                self.is_subscribed = True
            case "removed":
                self.is_subscribed = False
            case "subscribing" | "removing":
                self.is_subscribed = None


def _feeds(evidence: Evidence) -> Mapping[str, _Feed]:
    feeds: defaultdict[str, _Feed] = defaultdict(_Feed)
    for row in evidence.noted("feeds"):
        feeds[row["feed"]].note(row)
    return feeds


def _stored(evidence: Evidence) -> Iterator[tuple[str, Row]]:
    """Each JSON file of the calendars, with its name."""
    for path in sorted((evidence.state / "calendars").glob("[!.]*.json")):
        try:
            yield path.name, json.loads(path.read_bytes())
        except FileNotFoundError:  # it was removed meanwhile
            continue
        except ValueError as bad:
            evidence.damaged.append((path.name, str(bad)))


def _each_subscription_is_kept(evidence: Evidence) -> Iterator[Finding]:
    stored = [*_stored(evidence)]
    sources = [row for name, row in stored if name.endswith(".source.json")]
    copies = {row["name"]: row for name, row in stored if not name.endswith(".source.json")}
    for name in copies.keys() - {row["name"] for row in sources}:
        yield wrong(f"there is a copy of calendar {name}, which is not subscribed")
    for feed, known in _feeds(evidence).items():
        for titles in known.unexpected:
            yield wrong(f"the copy of calendar {feed} had {[*titles]} while it was not read again")
        found = [row for row in sources if f"/{SECRET_PATH}{feed}/" in row["address"]]
        if len(found) > 1:
            yield wrong(f"calendar {feed} is subscribed {len(found)} times")
        elif not found and known.is_subscribed:
            yield wrong(f"calendar {feed} was subscribed, and is gone")
        elif found and known.is_subscribed is False:
            yield wrong(f"calendar {feed} was removed, and is there")
        elif found:
            yield from _the_copy_is_whole(feed, known, copies.get(found[0]["name"]))


def _the_copy_is_whole(feed: str, known: _Feed, copy: Row | None) -> Iterator[Finding]:
    if copy is None:
        yield missing(f"there is no copy of calendar {feed}")
        return
    titles = [event["summary"] for event in copy["events"]]
    if not known.allows(titles):
        newest = known.allowed[-1] if known.allowed else ()
        yield wrong(f"the copy of calendar {feed} has {titles}, not {[*newest]}")


def _the_reading_of_calendars_is_reported(evidence: Evidence) -> Iterator[Finding]:
    """`cal refresh` fails if a calendar cannot be read, and only then."""
    for row in evidence.noted("refreshes"):
        if (row["code"] == 0) == bool(row["unreadable"]):
            yield wrong(f"`cal refresh` ended with {row['code']}, unreadable: {row['unreadable']}")


def _no_address_is_shown(evidence: Evidence) -> Iterator[Finding]:
    """The agent, the log and Discord never have a secret address."""
    shown = {
        "the log": [str(row["text"]) for row in (*evidence.messages, *evidence.held)],
        "Discord": [str(row["text"]) for row in evidence.discord if row["is_ours"]],
        "a prompt": [str(row["prompt"]) for row in evidence.model if row["event"] == "asked"],
    }
    for where, texts in shown.items():
        if any(SECRET_PATH in text for text in texts):
            yield wrong(f"the address of a calendar is in {where}")


INVARIANTS: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    _each_subscription_is_kept,
    _the_reading_of_calendars_is_reported,
    _no_address_is_shown,
)
