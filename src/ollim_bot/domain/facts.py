"""The small facts of `memory.json`, by name and type; those that nobody here knows are kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.initiative import SetInBackground
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.provider import ProviderKind
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.tool_policy import Pattern, problems

MOST_TOLD = 200
MOST_DRAFTS = 50
# A skip whose moment never came, as after an edit of the job, is forgotten then.
_SKIPS_KEPT = timedelta(days=30)
_FOR_RESTART = "restart"


@dataclass(frozen=True, slots=True)
class Move:
    """A change of the provider that was begun; `next` is the session to go on with, if any."""

    to: str
    next: SessionId | None


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts as they are stored; one of a wrong type counts as not there.

    Each change gives new facts, whose `raw` is what a transaction on the memory stores.
    """

    raw: Mapping[str, object]

    @property
    def provider(self) -> str | None:
        """The kind of provider that the main session belongs to."""
        return _text(self.raw.get("provider"))

    @property
    def parked(self) -> Mapping[str, SessionId]:
        """The sessions of the other providers, by kind, until those are in use again."""
        sessions = {kind: _session(value) for kind, value in _mapping(self.raw.get("parked"))}
        return {kind: session for kind, session in sessions.items() if session}

    @property
    def last_used(self) -> str | None:
        """Who answered before. A real provider that was only tried, and never answered, did not."""
        if self._is_untried:
            return ProviderKind.OFFLINE
        return ProviderKind.CLAUDE if ProviderKind.CLAUDE in self.parked else self.provider

    def answered(self) -> Facts:
        """The provider in use has answered for the first time."""
        return self._with(untried=None)

    @property
    def moving(self) -> Move | None:
        move = dict(_mapping(self.raw.get("moving")))
        to = _text(move.get("to"))
        return None if to is None else Move(to, _session(move.get("next")))

    def moving_to(self, kind: str, current: SessionId | None) -> Facts:
        """First step of a change: what was `current` is parked, and what comes next is known.

        Nothing happens where a change was begun before, so that it is finished first, nor where
        there is nothing to change.
        """
        if self.moving is not None or self.provider == kind:
            return self
        before = self.provider or _presumed_owner(kind, current)
        is_new = kind == ProviderKind.CLAUDE and self.last_used != kind
        is_sure = self.provider is not None or current is None
        untried = self._is_untried or (is_new and is_sure) or None
        if before == kind:
            return self._with(provider=kind, untried=untried)
        parked: dict[str, object] = {**self.parked, before: current}
        following = parked.pop(kind, None)
        kept = {name: session for name, session in parked.items() if session}
        moving = {"to": kind, "next": following}
        return self._with(parked=kept or None, moving=moving, untried=untried)

    def moved(self) -> Facts:
        """Last step of a change, when the next session is the one in use."""
        return self if self.moving is None else self._with(provider=self.moving.to, moving=None)

    @property
    def user_name(self) -> str | None:
        return _text(self.raw.get("user_name"))

    @property
    def bot_name(self) -> str | None:
        """In place of the one that the profile gives."""
        return _text(self.raw.get("bot_name"))

    def named(self, *, user_name: str | None, bot_name: str | None) -> Facts:
        return self._with(user_name=user_name, bot_name=bot_name)

    @property
    def web_read(self) -> MessageId | None:
        """The newest message that was seen on the page."""
        read = _text(self.raw.get("web_read"))
        return None if read is None else MessageId(read)

    def read_up_to(self, message_id: MessageId) -> Facts:
        return self._with(web_read=message_id)

    @property
    def discord_last_seen(self) -> str | None:
        """The newest message of the owner's over there that needs no second look."""
        return _number(self.raw.get("discord_last_seen"))

    def seen_on_discord(self, ref: str) -> Facts:
        """Goes forward only."""
        last = self.discord_last_seen
        is_newer = _number(ref) is not None and (last is None or int(ref) > int(last))
        return self._with(discord_last_seen=ref) if is_newer else self

    @property
    def discord_commands(self) -> str | None:
        """A fingerprint of the commands that Discord was last given."""
        return _text(self.raw.get("discord_commands"))

    def with_discord_commands(self, mark: str) -> Facts:
        return self._with(discord_commands=mark)

    @property
    def discord_drafts(self) -> tuple[str, ...]:
        """The messages over there that show a turn which has not ended; the newest as the last."""
        stored = self.raw.get("discord_drafts")
        refs = (_number(each) for each in (stored if isinstance(stored, list | tuple) else ()))
        return tuple(dict.fromkeys(ref for ref in refs if ref))

    def with_draft(self, ref: str) -> Facts:
        drafts = [*self.without_draft(ref).discord_drafts, ref][-MOST_DRAFTS:]
        return self._with(discord_drafts=drafts)

    def without_draft(self, ref: str) -> Facts:
        drafts = [each for each in self.discord_drafts if each != ref]
        return self._with(discord_drafts=drafts or None)

    @property
    def heartbeat(self) -> datetime | None:
        """When the bot was last known to run."""
        return _moment(self.raw.get("heartbeat"))

    def beaten(self, now: datetime) -> Facts:
        return self._with(heartbeat=now.isoformat())

    @property
    def running_since(self) -> datetime | None:
        """When the bot was started; gone once it has stopped as it should."""
        return _moment(self.raw.get("running_since"))

    @property
    def stopped_for_restart(self) -> bool:
        """Whether it was stopped only to be started again."""
        return self.raw.get("stopped") == _FOR_RESTART

    @property
    def cut_off_at(self) -> datetime | None:
        """When the bot last ran before a crash that the owner was not told of yet."""
        return _moment(self.raw.get("cut_off_at"))

    def begun(self, now: datetime) -> Facts:
        """Note a start. If the bot has not stopped since the start before, that was a crash."""
        started, cut_off = self.running_since, self.cut_off_at
        if started is not None:
            cut_off = max(started, self.heartbeat or started)
        ended_at = cut_off.isoformat() if cut_off else None
        return self._with(running_since=now.isoformat(), cut_off_at=ended_at)

    def ended(self, *, for_restart: bool) -> Facts:
        return self._with(running_since=None, stopped=_FOR_RESTART if for_restart else None)

    def greeted(self) -> Facts:
        """The owner was told of the crash, if there was one."""
        return self._with(cut_off_at=None)

    @property
    def told(self) -> Mapping[str, datetime]:
        """What the owner was told once, by key, and when; the newest as the last."""
        return _moments(self.raw.get("told"))

    @property
    def last_told_at(self) -> datetime | None:
        return _moment(self.raw.get("last_told_at"))

    def having_told(self, keys: Iterable[str], now: datetime) -> Facts:
        """Only the newest are remembered, by the order of telling, since a clock may go back."""
        told = dict(self.told)
        for key in keys:
            told.pop(key, None)
            told[key] = now
        kept = list(told.items())[-MOST_TOLD:]
        stored = {key: moment.isoformat() for key, moment in kept}
        return self._with(told=stored, last_told_at=now.isoformat())

    def without_told(self, key: str) -> Facts:
        """So that it is told when it comes again."""
        told = {name: when.isoformat() for name, when in self.told.items() if name != key}
        return self._with(told=told) if key in self.told else self

    @property
    def skips(self) -> Mapping[str, datetime]:
        """The moment that the owner wants left out, by job: `routine:plan`."""
        return _moments(self.raw.get("skips"))

    def is_skipped(self, occurrence: Occurrence) -> bool:
        """A run by hand never is."""
        moment = self.skips.get(_job_of(occurrence))
        return moment is not None and not occurrence.manual and moment == occurrence.scheduled_at

    def skipping(self, occurrence: Occurrence, now: datetime) -> Facts:
        """In place of an earlier moment of that job."""
        moment = occurrence.scheduled_at
        if moment is None:
            return self
        skips = {job: at for job, at in self.skips.items() if now - at < _SKIPS_KEPT}
        return self._with_skips({**skips, _job_of(occurrence): moment})

    def without_skip(self, job: str) -> Facts:
        return self._with_skips({name: at for name, at in self.skips.items() if name != job})

    def _with_skips(self, skips: Mapping[str, datetime]) -> Facts:
        return self._with(skips={job: at.isoformat() for job, at in skips.items()} or None)

    @property
    def granted(self) -> tuple[Pattern, ...]:
        """What the owner has allowed for good when asked; a wrong pattern allows nothing."""
        stored = self.raw.get("granted")
        texts = stored if isinstance(stored, list | tuple) else ()
        right = (each for each in texts if isinstance(each, str) and not problems(each).errors)
        return tuple(Pattern.of(each) for each in right)

    def granting(self, pattern: Pattern) -> Facts:
        patterns = [each for each in self.granted if each != pattern]
        return self._with(granted=[str(each) for each in (*patterns, pattern)])

    def without_grants(self) -> Facts:
        return self._with(granted=None)

    @property
    def set_in_background(self) -> SetInBackground:
        """What background runs have set since yesterday."""
        stored = self.raw.get("set_in_background")
        pairs = (dict(_mapping(each)) for each in (stored if isinstance(stored, list) else ()))
        entries = ((_text(each.get("run")) or "", _day(each.get("day"))) for each in pairs)
        return SetInBackground(tuple((run, day) for run, day in entries if day))

    def with_set_in_background(self, known: SetInBackground) -> Facts:
        stored = [{"run": run, "day": day.isoformat()} for run, day in known.entries]
        return self._with(set_in_background=stored or None)

    @property
    def _is_untried(self) -> bool:
        return self.raw.get("untried") is True

    def _with(self, **changes: object) -> Facts:
        """None takes a fact away."""
        kept = {name: value for name, value in self.raw.items() if name not in changes}
        return Facts(kept | {name: value for name, value in changes.items() if value is not None})


def _presumed_owner(kind: str, current: SessionId | None) -> str:
    """Whose session it is where the memory does not say, as after it was damaged.

    Wherever it may be a real provider's, the built-in model must not go on with it.
    """
    return ProviderKind.CLAUDE if current and kind == ProviderKind.OFFLINE else kind


def _mapping(value: object) -> Iterable[tuple[str, object]]:
    return value.items() if isinstance(value, Mapping) else ()


def _moments(value: object) -> Mapping[str, datetime]:
    moments = {key: _moment(each) for key, each in _mapping(value)}
    return {key: moment for key, moment in moments.items() if moment}


def _job_of(occurrence: Occurrence) -> str:
    return f"{occurrence.kind}:{occurrence.job_id}"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: object) -> str | None:
    """An id as Discord gives them."""
    text = _text(value) or ""
    return text if re.fullmatch(r"[0-9]{1,20}", text) else None


def _day(value: object) -> date | None:
    try:
        return date.fromisoformat(_text(value) or "")
    except ValueError:
        return None


def _session(value: object) -> SessionId | None:
    text = _text(value) or ""
    return SessionId(text) if re.fullmatch(r"[!-~]{1,200}", text) else None


def _moment(value: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(_text(value) or "")
    except ValueError:
        return None
    return None if moment.utcoffset() is None else moment
