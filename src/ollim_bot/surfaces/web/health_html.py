"""The health of the installation as markup for the page: what is wrong first, then all the rest."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from ollim_bot.domain.health import HealthLine, HealthReport, WayOut
from ollim_bot.domain.moments import describe, duration_in_words, elapsed
from ollim_bot.domain.text import counted
from ollim_bot.surfaces.web.marked import marked, section

# State is never told by colour alone.
_WORDS = {"PASS": "right", "OFF": "off", "WARN": "look at this", "FAIL": "wrong"}


def health_html(report: HealthReport, _: int) -> str:
    """What is wrong, with the next step or a button that takes it; then what is right."""
    return "".join(_parts(report))


def _parts(report: HealthReport) -> Iterator[str]:
    yield f"<h2>Health</h2>{_head(report)}"
    wrong = [each for each in report.lines if not each.is_right]
    if wrong:
        lines = "".join(map(_line, wrong))
        yield section("health-wrong", "What to do", f'<ul class="things">{lines}</ul>')
    elif report.lines:
        yield "<p>All is well.</p>"
    yield _ways(report)
    right = [each for each in report.lines if each.is_right]
    if right:
        lines = "".join(map(_line, right))
        yield (
            f'<details data-fold="right"><summary>Right · {len(right)}</summary>'
            f'<ul class="things">{lines}</ul></details>'
        )


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


def _line(line: HealthLine) -> str:
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


def _ways(report: HealthReport) -> str:
    lines = [_way(each, report) for each in report.ways]
    if report.pending_updates:
        told = counted(report.pending_updates, "update")
        lines.append(f"<li>{told} for the agent, told with its next turn</li>")
    if not lines:
        return ""
    return section("health-ways", "Ways to you", f"<ul>{''.join(lines)}</ul>")


def _way(way: WayOut, report: HealthReport) -> str:
    newest = "nothing has arrived there yet"
    if way.newest is not None:
        moment = way.newest.astimezone(report.now.tzinfo).replace(second=0, microsecond=0)
        newest = f"the newest message there is from {describe(moment, report.now)}"
    waiting = f"; {counted(way.waiting, 'message')} on the way" if way.waiting else ""
    return f"<li><strong>{escape(way.name)}</strong>: {newest}{waiting}</li>"
