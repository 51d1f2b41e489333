"""Settings on the page: each with its field, and the phone, which is paired there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from html import escape
from itertools import groupby
from typing import Protocol
from urllib.parse import urlsplit

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.moments import clock_time, describe, instant, short_clock
from ollim_bot.kernel.store.steps import quiet_settings
from ollim_bot.kernel.store.store import Store, Watches, changes_of
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.changes import Changer
from ollim_bot.kernel.values.costs import Amount
from ollim_bot.kernel.values.push import (
    PHONE_ACTIONS,
    PairingStatus,
    PhoneAttempt,
    PhoneCode,
    PhoneOffer,
    PhoneView,
)
from ollim_bot.kernel.values.quiet import QuietSettings, quiet_until
from ollim_bot.kernel.values.runtime_config import CONFIG_KEYS, RuntimeConfig
from ollim_bot.kernel.values.views import (
    ActingView,
    SettingGroup,
    SettingLine,
    SettingsView,
    ViewAnswer,
)
from ollim_bot.surfaces.web.marked import ViewPage, joined_parts, marked, section, things

# The group that stands below the phone.
PHONE = "Phone"
GROUPS: Mapping[str, tuple[str, ...]] = {
    "How often it may speak": ("critical_daily_cap", "nag_default"),
    "Quiet": ("quiet_hours", "receipt_in_digest"),
    PHONE: ("push_what", "push_content"),
    "How else it reaches you": ("desktop_notifications", "page_sound"),
    "Where you are": ("timezone", "travel_minutes"),
    "The model": (
        *("model.main", "model.fork", "thinking.main", "thinking.fork", "permission_mode"),
        *("approval_timeout", "fork_idle_timeout", "bg_fork_timeout", "bg_concurrency"),
    ),
    "Money": ("daily_cost_cap",),
    "Calendars and tasks": ("google_calendars", "google_task_list"),
    "Webhooks": ("webhook_per_minute", "webhook_total_per_minute"),
    "Backup and updates": ("auto_backup", "auto_update", "auto_update_hour"),
}


@dataclass(frozen=True, slots=True)
class PresentState:
    """What the effects of settings are told from."""

    now: datetime
    quiet: QuietSettings
    spent_today: Amount


def setting_groups(config: RuntimeConfig, at: PresentState) -> list[SettingGroup]:
    """Every setting that does something, in its group."""
    return [
        SettingGroup(name, [_told(config, key, at) for key in keys])
        for name, keys in GROUPS.items()
    ]


def _told(config: RuntimeConfig, key: str, at: PresentState) -> SettingLine:
    known = CONFIG_KEYS[key]
    is_switch = isinstance(config.value(key), bool)
    is_mode = known.takes.startswith("one of ")
    modes = tuple(known.takes.removeprefix("one of ").split(", ")) if is_mode else ()
    return SettingLine(
        key,
        known.about,
        config.in_words(key),
        config.defaults.in_words(key),
        known.takes,
        known.unit if config.defaults.value(key) is not None else "",
        ("on", "off") if is_switch else modes,
        _effect(config, key, at),
    )


def _effect(config: RuntimeConfig, key: str, at: PresentState) -> str:
    if key == "quiet_hours":
        until = quiet_until(at.quiet, at.now)
        if until is not None:
            return f"quiet now, until {describe(until, at.now)}"
        hours = at.quiet.hours
        return "never quiet" if hours is None else f"next quiet: {_next(hours.start, at.now)}"
    if key == "daily_cost_cap":
        return f"today: {at.spent_today.in_words()}"
    if key == "timezone":
        return f"it is {short_clock(at.now)} there"
    if key in ("auto_backup", "auto_update") and config.value(key):
        return f"next: {_next(time(config.auto_update_hour), at.now)}"
    return ""


def _next(wall: time, now: datetime) -> str:
    """When clocks show that time next, in words."""
    zone = now.tzinfo or UTC
    days = (now.date() + timedelta(days=away) for away in (0, 1))
    moments = [instant(datetime.combine(day, wall), zone) for day in days]
    return describe(next(each for each in moments if each > now), now)


# Sets a key to a value, or to its default for None, and says what has changed.
ChangeSetting = Callable[[Changer, str, str | None], Awaitable[str]]


class PhoneSettings(Protocol):
    """The owner's phone among the settings. `news` are published at each step of a pairing."""

    news: Watches

    async def run(self) -> None:
        """Carry out the attempts that are begun on the page, until cancelled."""

    async def look(self, asked: Mapping[str, str], /) -> PhoneView: ...

    async def act(self, action: str, fields: Mapping[str, str], /) -> ViewAnswer:
        """Do one of `PHONE_ACTIONS`."""


@dataclass(eq=False)
class SettingPage(ActingView[SettingsView]):
    """An `ActingView`. The actions are `set` (`key`, `value`), `default` (`key`), the phone's."""

    _store: Store
    _clock: Clock
    _change: ChangeSetting
    _phone: PhoneSettings | None = None

    async def look(self, asked: Mapping[str, str]) -> SettingsView:
        phone = await self._phone.look(asked) if self._phone else None
        return SettingsView(await self._store.read(self._read), phone)

    def changes(self) -> AsyncIterator[None]:
        news = self._phone.news if self._phone else None
        return changes_of(self._store, "config", "quiet", "zone", "channels", "push", also=news)

    async def act(self, _: str, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        if self._phone is not None and action in PHONE_ACTIONS:
            return await self._phone.act(action, fields)
        key, value = fields.get("key", ""), fields.get("value", "")
        if key not in CONFIG_KEYS or action not in ("set", "default"):
            return ViewAnswer("There is no such setting.", is_error=True)
        try:
            told = await self._change(Changer.PAGE, key, value if action == "set" else None)
        except WrongInput as wrong:
            return ViewAnswer(str(wrong), is_error=True, field="value")
        return ViewAnswer(told)

    def _read(self, tx: Transaction) -> list[SettingGroup]:
        now = self._clock.now()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        spent = Amount.of(tx.usage.since(midnight))
        at = PresentState(now, quiet_settings(tx, now.tzinfo), spent)
        return setting_groups(tx.config.get(), at)


_KEYS = (
    '<p class="remark">Keys and passwords are neither shown nor taken here: '
    "<code>ollim-bot setup</code> asks for them.</p>"
)
_ACCOUNT = (
    "A server that wants a token: run `ollim-bot push setup`. The token is taken in the terminal "
    "only."
)
_NAMES_ARE_KEYS = "These names are keys: who knows them reads what comes, and can answer it."
_SECOND = "A second phone scans the same code. Both then show the same, and each can answer."
_REMOVE = "Nothing comes to your phone then. To pair it again, scan a new code with each phone."


@joined_parts
def settings_html(settings: SettingsView, _: int) -> Iterator[str]:
    """Every setting in its group, and the phone; keys and passwords are none of them."""
    yield "<h2>Settings</h2>"
    for number, group in enumerate(settings.groups):
        first = _phone(settings.phone) if settings.phone and group.name == PHONE else ""
        lines = things(map(_line, group.lines))
        yield section(f"settings-{number}", escape(group.name), f"{first}{lines}")
    yield _KEYS


def _line(line: SettingLine) -> str:
    key = escape(line.key)
    effect = f' <strong class="effect">{escape(line.effect)}</strong>' if line.effect else ""
    unit = f" {escape(line.unit)}" if line.unit else ""
    field = f'<input name="value" value="{escape(line.value)}" autocomplete="off" required>'
    if line.choices:
        options = "".join(
            f"<option{' selected' if each == line.value else ''}>{escape(each)}</option>"
            for each in line.choices
        )
        field = f'<select name="value">{options}</select>'
    back = ""
    if line.is_changed:
        back = (
            f'<button type="button" class="plain" data-action="default" data-field-key="{key}" '
            f'aria-label="Back to the default: {key}">Back to the default</button>'
        )
    return (
        f'<li class="thing"><p>{escape(line.about[:1].upper() + line.about[1:])}.{effect}</p>'
        f'<form data-action="set" data-field-key="{key}">'
        f"<label><code>{key}</code>{field}</label>"
        f'<button aria-label="Set {key}">Set</button>{back}'
        '<p class="problem" role="alert"></p></form>'
        f'<p class="about">It takes {escape(line.takes)}. Default: {escape(line.default)}{unit}.'
        "</p></li>"
    )


def _phone(phone: PhoneView) -> str:
    """What is said before a phone is paired, the code while it is, or the phone that is paired."""
    if phone.attempt is not None:
        return f'<div class="thing phone">{_attempt(phone.attempt, phone.offer)}</div>'
    kind = "problem" if phone.has_failed else "told"
    told = f'<p class="{kind}" role="alert">{marked(phone.told)}</p>' if phone.told else ""
    shown = _paired(phone, phone.paired) if phone.paired is not None else _offer(phone.offer)
    return f'<div class="thing phone">{told}{shown}</div>'


def _offer(offer: PhoneOffer) -> str:
    public = escape(offer.public)
    name = escape(urlsplit(offer.public).netloc or offer.public)
    told = "".join(f"<p>{marked(each)}</p>" for each in offer.told)
    return (
        f"{told}"
        '<form data-action="pair"><label>Address of your own server'
        '<input name="server" autocomplete="off" placeholder="https://push.example.org" required>'
        '</label><button>Pair</button><p class="problem" role="alert"></p></form>'
        f"<p>{marked(offer.of_public)}</p>"
        f'<form data-action="pair" data-field-server="{public}">'
        f'<button>Pair through {name}</button><p class="problem" role="alert"></p></form>'
        f'<p class="about">{marked(_ACCOUNT)}</p>'
    )


def _attempt(attempt: PhoneAttempt, offer: PhoneOffer) -> str:
    cancel = _button("cancel-pairing", "Cancel")
    server = f"<code>{escape(attempt.server)}</code>"
    if attempt.code is None:
        return f'<p role="status">Checking {server} …</p><div class="buttons">{cancel}</div>'
    ends_at = attempt.until and attempt.until.replace(second=0, microsecond=0)
    until = f", until {clock_time(ends_at)}" if ends_at else ""
    steps = "".join(f"<li>{marked(each)}</li>" for each in offer.steps)
    return (
        f'<p class="waiting" role="status">Waiting for your press{until}.</p>'
        f'<ol class="steps">{steps}</ol>{_code(attempt.code, attempt.server)}'
        f'<div class="buttons">{cancel}</div>'
    )


def _paired(phone: PhoneView, paired: PairingStatus) -> str:
    last, now, code = "No button was pressed yet.", phone.now, phone.code
    if paired.last_press:
        last = f"Last press: {describe(paired.last_press, now)}."
    again, second = '<a href="/settings?phone=code">Show the code again</a>', ""
    if code is not None:
        hide = '<p><a class="back" href="/settings">Hide the code</a></p>'
        again, second = "", f"<p>{_SECOND}</p>{_code(code, paired.server)}{hide}"
    return (
        f"<p>Paired through <code>{escape(paired.server)}</code> since "
        f"{escape(describe(paired.since, now))}. {escape(last)}</p>"
        f'<div class="buttons">{_button("test-phone", "Send a test")}{again}'
        '<details class="more" data-fold="remove-phone"><summary>Remove</summary>'
        f"<p>{_REMOVE}</p>{_button('remove-phone', 'Remove it', 'danger')}</details></div>"
        f"{second}"
    )


def _code(code: PhoneCode, server: str) -> str:
    rows = (("Server", server), ("Topic", code.topic), ("Replies", code.reply_topic))
    names = "".join(
        f'<tr><th scope="row">{name}</th><td><code>{escape(value)}</code></td></tr>'
        for name, value in rows
    )
    size = len(code.picture)
    return (
        f'<div class="code"><svg viewBox="0 0 {size} {size}" role="img" '
        f'aria-label="The code to scan"><path d="{_dark(code.picture)}"></path></svg>'
        f"<div><table><tbody>{names}</tbody></table>"
        f'<p class="about">{_NAMES_ARE_KEYS}</p></div></div>'
    )


@joined_parts
def _dark(lines: Iterable[str]) -> Iterator[str]:
    for y, line in enumerate(lines):
        x = 0
        for is_dark, same in groupby(line, lambda each: each == "#"):
            width = sum(1 for _ in same)
            if is_dark:
                yield f"M{x} {y}h{width}v1h-{width}z"
            x += width


def _button(action: str, label: str, style: str = "secondary") -> str:
    return f'<button type="button" class="{style}" data-action="{action}">{label}</button>'


PAGES = (ViewPage("settings", "Settings", settings_html, "p", "phone.css"),)
