"""The browsers that are signed in at the page, and for how long."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

KNOWN_FOR = timedelta(days=30)
MOST_BROWSERS = 20
# A page that is used all day must not cause writes all day.
_USE_IS_NOTED_AFTER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class KnownBrowser:
    """`generation` counts the keys that it was given; only the newest key is valid."""

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
        """With `browser` in place of its earlier entry; the longest unused ones make room."""
        now = browser.used
        others = [each for each in self.without(browser.id).all if now - each.used <= KNOWN_FOR]
        others.sort(key=lambda each: each.used)
        return KnownBrowsers((*others[-(MOST_BROWSERS - 1) :], browser))

    def used(self, browser_id: str, now: datetime) -> KnownBrowsers:
        """The same value, unless the last noted use is old enough to note this one."""
        browser = self.find(browser_id, now)
        if browser is None or abs(now - browser.used) < _USE_IS_NOTED_AFTER:
            return self
        return self.adding(replace(browser, used=now))

    def without(self, browser_id: str) -> KnownBrowsers:
        return KnownBrowsers(tuple(each for each in self.all if each.id != browser_id))
