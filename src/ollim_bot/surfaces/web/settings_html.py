"""The settings as markup for the page, a form for each, and the phone among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from html import escape
from itertools import groupby
from urllib.parse import urlsplit

from ollim_bot.domain.moments import clock_time, describe
from ollim_bot.domain.phone import PairingStatus, PhoneAttempt, PhoneCode, PhoneOffer, PhoneView
from ollim_bot.domain.setting_view import PHONE, SettingLine, SettingsView
from ollim_bot.surfaces.web.marked import marked, section

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


def settings_html(settings: SettingsView, _: int) -> str:
    """Every setting in its group, and the phone; keys and passwords are none of them."""
    phone = _phone(settings.phone) if settings.phone else ""
    parts = ["<h2>Settings</h2>"]
    for number, group in enumerate(settings.groups):
        things = f'<ul class="things">{"".join(map(_line, group.lines))}</ul>'
        first = phone if group.name == PHONE else ""
        parts.append(section(f"settings-{number}", escape(group.name), f"{first}{things}"))
    return "".join([*parts, _KEYS])


def _line(line: SettingLine) -> str:
    key = escape(line.key)
    effect = f' <strong class="effect">{escape(line.effect)}</strong>' if line.effect else ""
    unit = f" {escape(line.unit)}" if line.unit else ""
    about = f"It takes {escape(line.takes)}. Default: {escape(line.default)}{unit}."
    back = ""
    if line.is_changed:
        back = (
            f'<button type="button" class="plain" data-action="default" data-field-key="{key}" '
            f'aria-label="Back to the default: {key}">Back to the default</button>'
        )
    return (
        f'<li class="thing"><p>{escape(line.about[:1].upper() + line.about[1:])}.{effect}</p>'
        f'<form data-action="set" data-field-key="{key}">'
        f"<label><code>{key}</code>{_field(line)}</label>"
        f'<button aria-label="Set {key}">Set</button>{back}'
        '<p class="problem" role="alert"></p></form>'
        f'<p class="about">{about}</p></li>'
    )


def _field(line: SettingLine) -> str:
    if not line.choices:
        return f'<input name="value" value="{escape(line.value)}" autocomplete="off" required>'
    options = "".join(
        f"<option{' selected' if each == line.value else ''}>{escape(each)}</option>"
        for each in line.choices
    )
    return f'<select name="value">{options}</select>'


def _phone(phone: PhoneView) -> str:
    """What is said before a phone is paired, the code while it is, or the phone that is paired."""
    if phone.attempt is not None:
        return f'<div class="thing phone">{_attempt(phone.attempt, phone.offer)}</div>'
    kind = "problem" if phone.has_failed else "told"
    told = f'<p class="{kind}" role="alert">{marked(phone.told)}</p>' if phone.told else ""
    if phone.paired is not None:
        shown = _paired(phone.paired, phone.now, phone.code)
    else:
        shown = _offer(phone.offer)
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
    until = ""
    if attempt.until:
        until = f", until {clock_time(attempt.until.replace(second=0, microsecond=0))}"
    steps = "".join(f"<li>{marked(each)}</li>" for each in offer.steps)
    return (
        f'<p class="waiting" role="status">Waiting for your press{until}.</p>'
        f'<ol class="steps">{steps}</ol>{_code(attempt.code, attempt.server)}'
        f'<div class="buttons">{cancel}</div>'
    )


def _paired(paired: PairingStatus, now: datetime, code: PhoneCode | None) -> str:
    again = "" if code else '<a href="/settings?phone=code">Show the code again</a>'
    last = f"Last press: {_moment(paired.last_press, now)}." if paired.last_press else ""
    second = ""
    if code is not None:
        second = (
            f"<p>{_SECOND}</p>{_code(code, paired.server)}"
            '<p><a class="back" href="/settings">Hide the code</a></p>'
        )
    return (
        f"<p>Paired through <code>{escape(paired.server)}</code> since "
        f"{escape(_moment(paired.since, now))}. {escape(last or 'No button was pressed yet.')}</p>"
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
    return (
        f'<div class="code">{_drawn(code.picture)}<div><table><tbody>{names}</tbody></table>'
        f'<p class="about">{_NAMES_ARE_KEYS}</p></div></div>'
    )


def _drawn(rows: Iterable[str]) -> str:
    lines = tuple(rows)
    size = len(lines)
    path = "".join(_dark(lines))
    return (
        f'<svg viewBox="0 0 {size} {size}" role="img" aria-label="The code to scan">'
        f'<path d="{path}"></path></svg>'
    )


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


def _moment(moment: datetime, now: datetime) -> str:
    return describe(moment.astimezone(now.tzinfo).replace(second=0, microsecond=0), now)
