"""Settings, health, sessions and what it knows as markup for the page. Every text is data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime
from html import escape
from itertools import groupby
from urllib.parse import urlsplit

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.moments import clock_time, describe, duration_in_words, elapsed
from ollim_bot.kernel.base.text import counted, shortened
from ollim_bot.kernel.values.about_me import AboutMe, KnownLine
from ollim_bot.kernel.values.push import (
    PairingStatus,
    PhoneAttempt,
    PhoneCode,
    PhoneOffer,
    PhoneView,
)
from ollim_bot.kernel.values.session_list import CompactionLine, SessionLine, SessionList
from ollim_bot.kernel.values.views import (
    PHONE,
    HealthLine,
    HealthReport,
    SettingLine,
    SettingsView,
    WayOut,
)
from ollim_bot.surfaces.web.marked import (
    ViewPage,
    about,
    fold,
    joined_parts,
    list_section,
    marked,
    section,
    show_more,
    things,
    time_html,
)

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
        again, second = (
            "",
            (
                f"<p>{_SECOND}</p>{_code(code, paired.server)}"
                '<p><a class="back" href="/settings">Hide the code</a></p>'
            ),
        )
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


# State is never told by colour alone.
_WORDS = {"PASS": "right", "OFF": "off", "WARN": "look at this", "FAIL": "wrong"}


@joined_parts
def health_html(report: HealthReport, _: int) -> Iterator[str]:
    """What is wrong, with the next step or a button that takes it; then what is right."""
    yield f"<h2>Health</h2>{_head(report)}"
    wrong, right = list[str](), list[str]()
    for each in report.lines:
        (right if each.is_right else wrong).append(_health_line(each))
    yield list_section("health-wrong", "What to do", wrong)
    if 0 < len(right) == len(report.lines):
        yield "<p>All is well.</p>"
    ways = [_way(each, report) for each in report.ways]
    if report.pending_updates:
        told = counted(report.pending_updates, "update")
        ways.append(f"<li>{told} for the agent, told with its next turn</li>")
    if ways:
        yield section("health-ways", "Ways to you", f"<ul>{''.join(ways)}</ul>")
    if right:
        yield fold("right", f"Right · {len(right)}", things(right))


def _head(report: HealthReport) -> str:
    button = '<button type="button" class="plain" data-action="look">Look again</button>'
    if report.is_looking:
        return '<p role="status">Looking at everything. It takes some seconds.</p>'
    if report.looked is None:
        words = "What works and what does not will stand here, each with the next step."
        return f'<p class="empty">{words}</p>{button}'
    age = elapsed(report.looked, report.now)
    ago = "just now" if age.total_seconds() < 60 else f"{duration_in_words(age)} ago"
    return f'<p class="about">Looked {ago}.</p><div class="buttons">{button}</div>'


def _health_line(line: HealthLine) -> str:
    name = escape(line.name)
    step = f'<p class="about">{marked(line.next)}</p>' if line.next else ""
    fix = ""
    if line.can_fix:
        fix = (
            f'<div class="buttons"><button type="button" class="plain" data-action="fix" '
            f'data-field-name="{name}" aria-label="Fix it: {name}">Fix it</button></div>'
        )
    return (
        f'<li class="thing {line.level.lower()}"><p><strong>{name}</strong> '
        f'<span class="about">{_WORDS.get(line.level, "")}</span><br>{marked(line.detail)}</p>'
        f"{step}{fix}</li>"
    )


def _way(way: WayOut, report: HealthReport) -> str:
    newest = "nothing has arrived there yet"
    if way.newest is not None:
        newest = f"the newest message there is from {describe(way.newest, report.now)}"
    waiting = f"; {counted(way.waiting, 'message')} on the way" if way.waiting else ""
    return f"<li><strong>{escape(way.name)}</strong>: {newest}{waiting}</li>"


_EMPTY = "There are no conversations yet. Write a message, and the first one stands here."
_NO_WORDS = "no words yet"
_LONGEST = 300


@joined_parts
def sessions_html(listed: SessionList, most: int) -> Iterator[str]:
    """The main conversations, those beside them, and what was shortened, `most` of each."""
    yield "<h2>Sessions</h2>"
    if not listed.main and not listed.side:
        yield f'<p class="empty">{_EMPTY}</p>'
    main = [_session(each, listed.now) for each in listed.main[:most]]
    side = [_session(each, listed.now) for each in listed.side[:most]]
    compactions = [_compaction(each, listed.now) for each in listed.compactions[:most]]
    parts = (
        ("main", "Conversations", main),
        ("side", "Side conversations", side),
        ("compactions", "Compactions", compactions),
    )
    for name, heading, lines in parts:
        yield list_section(f"sessions-{name}", heading, lines)
    lists = (listed.main, listed.side, listed.compactions)
    yield show_more(sum(max(0, len(each) - most) for each in lists))


def _session(line: SessionLine, now: datetime) -> str:
    notes = [counted(line.answers, "answer")] if line.answers else []
    notes += ["this one"] if line.is_current else []
    back_to = None if line.is_current else line.id
    return _sessions_line(line, " · ".join(notes), back_to, "Go back to it", now)


def _compaction(line: CompactionLine, now: datetime) -> str:
    note = "shortened to a summary" if line.before else "shortened to a summary, in place"
    return _sessions_line(line, note, line.before, "Go back before it", now)


def _sessions_line(
    line: SessionLine | CompactionLine,
    note: str,
    back_to: SessionId | None,
    label: str,
    now: datetime,
) -> str:
    words, button = shortened(line.words, _LONGEST) or _NO_WORDS, ""
    if back_to:
        button = (
            f'<div class="buttons"><button type="button" data-action="resume" '
            f'data-field-id="{escape(back_to)}" aria-label="{escape(f"{label}: {words}")}">'
            f"{label}</button></div>"
        )
    return (
        f'<li class="thing"><p>{time_html(line.at, describe(line.at, now), "about")} '
        f'<bdi class="what">{escape(words)}</bdi>{about(note)}</p>{button}</li>'
    )


_ABOUT_ME_EMPTY = (
    "It has written down nothing about you yet. What it remembers will stand here, line by line: "
    "tell it something in Chat that it should remember."
)
_EVERYWHERE = (
    "Forget takes a line out of the notes; the log, past runs and the history still have it. To "
    "have words gone everywhere, stop the bot and type "
    '<code>ollim-bot forget --everywhere "likes tea"</code> with your own: it lists the places '
    "first and asks, and it cannot be undone."
)


@joined_parts
def about_me_html(known: AboutMe, most: int) -> Iterator[str]:
    """The notes by file, each line with its source, Edit and Forget; `most` lines at most."""
    yield "<h2>About me</h2>"
    for problem in known.problems:
        yield f'<p class="problem"><bdi>{escape(problem)}</bdi></p>'
    if not known.lines:
        yield f'<p class="empty">{_ABOUT_ME_EMPTY}</p>'
        return
    for number, (file, lines) in enumerate(groupby(known.lines[:most], lambda line: line.file)):
        shown = things(_about_me_line(each, known.today) for each in lines)
        yield section(f"about-{number}", f"<bdi>{escape(file)}</bdi>", shown)
    yield show_more(len(known.lines) - most)
    yield f'<p class="remark">{_EVERYWHERE}</p>'


def _about_me_line(line: KnownLine, today: date) -> str:
    name, text = escape(line.reference), escape(line.text)
    fields = (
        f'data-field-file="{escape(line.file)}" data-field-line="{line.number}" '
        f'data-field-text="{text}"'
    )
    return (
        f'<li class="thing"><p><bdi class="what">{text}</bdi>{about(line.origin(today))}</p>'
        '<div class="buttons">'
        f'<details class="more" data-fold="{name}"><summary aria-label="Edit: {name}">Edit'
        f'</summary><form data-action="edit" {fields}><label>Line {line.number} of '
        f'<bdi>{escape(line.file)}</bdi><input name="words" value="{text}" autocomplete="off" '
        f'required></label><button aria-label="Save: {name}">Save</button></form></details>'
        f'<button type="button" data-action="forget" {fields} aria-label="Forget: {name}">Forget'
        "</button></div></li>"
    )


PAGES = (
    ViewPage("about-me", "About me", about_me_html, "b"),
    ViewPage("health", "Health", health_html, "h"),
    ViewPage("settings", "Settings", settings_html, "p", "phone.css"),
    ViewPage("sessions", "Sessions", sessions_html, "s"),
)
