"""Health on the page: the doctor's lines with their age, looked at again and mended by a button."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from tests.conversation.scene import AllWell, scene, scripted
from tests.patience import patience
from tests.web.days import HOSTILE
from tests.web.markup import ATTRIBUTES, TAGS, Markup
from tests.web.scene import SUNDAY

from ollim_bot.domain.views import HealthLine, HealthReport, WayOut
from ollim_bot.surfaces.web.settings_html import health_html
from ollim_bot.upkeep.doctor import passed, warned


async def test_the_first_look_asks_the_doctor_and_a_button_mends_and_looks_again() -> None:
    doctor = AllWell()
    doctor.found = [replace(warned("a lock is stale", "Remove it.", lambda: "gone"), name="files")]
    async with scene(scripted(), health=doctor) as at, asyncio.timeout(patience()):
        view = at.chat.views.health
        changes = view.changes()
        assert (await view.look({})).is_looking
        await anext(changes)
        await anext(changes)
        report = await view.look({})
        assert (report.is_looking, report.looked) == (False, at.clock.now())
        (line,) = report.lines
        assert (line.name, line.can_fix) == ("files", True)
        assert (await view.act("web", "fix", {"name": "clock"})).is_error
        doctor.found = [replace(passed("right"), name="files")]
        assert (await view.act("web", "fix", {"name": "files"})).text == "files: is right again."
        assert doctor.mended == ["files"]
        await anext(changes)
        await anext(changes)
        assert [each.level for each in (await view.look({})).lines] == ["PASS"]
        assert not (await view.act("web", "look", {})).is_error
        assert (await view.look({})).is_looking
        await changes.aclose()  # type: ignore[attr-defined]


def full_report() -> HealthReport:
    """A warning that can be mended, a failure with hostile words, and a check that passed."""
    lines = (
        HealthLine("PASS", "clock", "right"),
        HealthLine("WARN", "files", "a lock is stale", "Remove it.", can_fix=True),
        HealthLine("FAIL", "calendars", HOSTILE, "Run `ollim-bot cal refresh`."),
    )
    ways = (WayOut("discord", SUNDAY - timedelta(hours=1), 2), WayOut("phone", None, 0))
    return HealthReport(SUNDAY, lines, SUNDAY - timedelta(minutes=5), False, ways, 1)


def test_what_is_wrong_comes_first_with_its_next_step() -> None:
    html = health_html(full_report(), 100)
    shown = Markup(html)
    assert shown.tags <= TAGS
    assert shown.attributes <= ATTRIBUTES
    words = " ".join(filter(None, shown.words))
    assert "Looked 5 min ago." in words
    assert words.index("Fix it") < words.index("Right · 1")
    assert f"calendars wrong {HOSTILE} Run ollim-bot cal refresh ." in words
    assert "discord : the newest message there is from today 13:30; 2 messages on" in words
    assert "will stand here" in health_html(HealthReport(SUNDAY), 100)
