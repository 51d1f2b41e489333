"""What is remembered about the surfaces across restarts."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from ollim_bot.kernel.base.ids import MessageId

MOST_DRAFTS = 50
_FIRST_REF = datetime(2015, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class WebState:
    """`read` is the newest message that was seen on the page."""

    read: MessageId | None = None


@dataclass(frozen=True, slots=True)
class DiscordState:
    """`last_seen` is the owner's newest message there that needs no second look.

    `commands` is a fingerprint of the last uploaded command menu. `drafts` are the messages there
    that show a turn without an end, newest last. The messages up to `told_until` may have been
    answered before the state was taken from a copy: those later than `last_seen` are told.
    """

    last_seen: str | None = None
    commands: str | None = None
    drafts: tuple[str, ...] = ()
    told_until: str | None = None

    def seen(self, ref: str) -> DiscordState:
        """Note a seen message; an older one than the last changes nothing."""
        is_newer = is_ref(ref) and (self.last_seen is None or int(ref) > int(self.last_seen))
        return replace(self, last_seen=ref) if is_newer else self

    def seen_until(self, moment: datetime) -> DiscordState:
        """Note everything sent until then as seen; nothing changes before the first message."""
        return self if self.last_seen is None else self.seen(_ref_at(moment))

    def passing_over(self, until: datetime) -> DiscordState:
        """Have what was sent until then told and not answered, except before the first message."""
        return self if self.last_seen is None else replace(self, told_until=_ref_at(until))

    def having_told(self) -> DiscordState:
        """Note that what was to be told is told."""
        told = self.told_until
        return self if told is None else replace(self.seen(told), told_until=None)

    def with_commands(self, mark: str) -> DiscordState:
        return replace(self, commands=mark)

    def with_draft(self, ref: str) -> DiscordState:
        others = self.without_draft(ref).drafts
        return replace(self, drafts=(*others, ref)[-MOST_DRAFTS:])

    def without_draft(self, ref: str) -> DiscordState:
        return replace(self, drafts=tuple(each for each in self.drafts if each != ref))


@dataclass(frozen=True, slots=True)
class PushState:
    """What is known of the phone's server and of the buttons that were pressed.

    All of it is of the pairing `identity`, but for the limits of the server. `last_reply` is the id
    of the last line that was read of the replies, `last_press` when a button last did something. On
    the day `day` of UTC, `sent` messages were sent. `wrong` counts the replies that did nothing,
    `dropped` those beyond the limits. Nothing is sent before `quiet_until`.
    """

    identity: str = ""
    last_reply: str = ""
    last_press: datetime | None = None
    day: str = ""
    sent: int = 0
    wrong: int = 0
    dropped: int = 0
    quiet_until: datetime | None = None

    def sent_on(self, now: datetime) -> int:
        """How many messages were sent on that day."""
        return self.sent if self.day == day_of(now) else 0

    def counting(self, now: datetime) -> PushState:
        """With one more message on that day."""
        return replace(self, day=day_of(now), sent=self.sent_on(now) + 1)

    def silent_until(self, moment: datetime) -> PushState:
        """With a pause; an earlier end of one changes nothing."""
        return replace(self, quiet_until=max(filter(None, (self.quiet_until, moment))))

    def having_read(
        self, reply: str, *, wrong: int = 0, dropped: int = 0, pressed: datetime | None = None
    ) -> PushState:
        """After replies up to this one; an empty id is none."""
        return replace(
            self,
            last_reply=reply or self.last_reply,
            last_press=pressed or self.last_press,
            wrong=self.wrong + wrong,
            dropped=self.dropped + dropped,
        )

    def of_pairing(self, identity: str) -> PushState:
        """The same value, or a new one for another pairing; the limits of the server stay."""
        if self.identity == identity:
            return self
        return PushState(identity, day=self.day, sent=self.sent, quiet_until=self.quiet_until)


def day_of(moment: datetime) -> str:
    """The day by which the phone's server counts: that of UTC."""
    return moment.astimezone(UTC).date().isoformat()


def _ref_at(moment: datetime) -> str:
    """The id that Discord would give a message of that moment: ids count the milliseconds."""
    milliseconds = (moment - _FIRST_REF) // timedelta(milliseconds=1)
    return str(max(0, milliseconds) << 22)


def is_ref(text: str) -> bool:
    """Whether the text is an id of Discord's form."""
    return re.fullmatch(r"[0-9]{1,20}", text) is not None


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


# A page that lost its answer asks again soon.
_REMEMBERED = 50


@dataclass(frozen=True, slots=True)
class AddedLine:
    """`key` is what the page called the line; `told` is the answer, empty while it is added."""

    key: str
    told: str = ""


@dataclass(frozen=True, slots=True)
class AddedLines:
    """The lines that were added last, so that each is added once."""

    lines: tuple[AddedLine, ...] = ()

    def find(self, key: str) -> AddedLine | None:
        return next((each for each in self.lines if each.key == key), None)

    def including(self, line: AddedLine) -> AddedLines:
        others = (each for each in self.lines if each.key != line.key)
        return replace(self, lines=(*others, line)[-_REMEMBERED:])
