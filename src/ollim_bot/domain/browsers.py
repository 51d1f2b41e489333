"""The browsers that were let in at the page, and for how long each is known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

KNOWN_FOR = timedelta(days=30)
MOST_BROWSERS = 20
# So that a page that is used all day does not have its file written all day.
_USE_IS_NOTED_AFTER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class KnownBrowser:
    """`generation` counts the keys that it had; only the newest one counts."""

    id: str
    generation: int
    used: datetime


@dataclass(frozen=True, slots=True)
class KnownBrowsers:
    """At most `MOST_BROWSERS`; each is forgotten `KNOWN_FOR` after its last use."""

    all: tuple[KnownBrowser, ...] = ()

    def find(self, browser_id: str, now: datetime) -> KnownBrowser | None:
        found = (each for each in self.all if each.id == browser_id)
        return next((each for each in found if now - each.used <= KNOWN_FOR), None)

    def adding(self, browser: KnownBrowser) -> KnownBrowsers:
        """With it in place of what was known of it; those unused for the longest time make room."""
        now = browser.used
        others = [each for each in self.without(browser.id).all if now - each.used <= KNOWN_FOR]
        others.sort(key=lambda each: each.used)
        return KnownBrowsers((*others[-(MOST_BROWSERS - 1) :], browser))

    def used(self, browser_id: str, now: datetime) -> KnownBrowsers:
        """The same, unless it is worth noting that it was used now."""
        browser = self.find(browser_id, now)
        if browser is None or abs(now - browser.used) < _USE_IS_NOTED_AFTER:
            return self
        return self.adding(replace(browser, used=now))

    def without(self, browser_id: str) -> KnownBrowsers:
        return KnownBrowsers(tuple(each for each in self.all if each.id != browser_id))
