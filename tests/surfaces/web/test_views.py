"""Each view as markup: its words, its buttons, and every text of others as data."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import timedelta

import pytest
from devtools.doubles.phone import CODE, OFFER, SINCE
from tests.kernel.conversation.scene import AllWell, scene, scripted
from tests.patience import patience
from tests.surfaces.web.browser import Browser
from tests.surfaces.web.markup import ATTRIBUTES, TAGS, Markup, words_of
from tests.surfaces.web.scene import SUNDAY, Scene
from tests.surfaces.web.views import (
    HOSTILE,
    MORNING,
    RUN,
    SKIPPED,
    SPOKE,
    full_day,
    full_list,
    full_report,
    hostile_form,
    hostile_jobs,
    hostile_list,
    hostile_run,
    known,
    spent,
)
from tests.surfaces.web.weeks import full_week

from ollim_bot.features.about_me.about_me_view import about_me_html
from ollim_bot.features.changes.changes_view import changes_html
from ollim_bot.features.doctor.health_view import health_html
from ollim_bot.features.runs.runs_view import runs_html
from ollim_bot.features.settings.settings_view import PHONE, settings_html
from ollim_bot.features.today.day import DayView
from ollim_bot.features.week.week_view import week_html
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.text import shortened, with_program
from ollim_bot.kernel.upkeep.findings import passed, warned
from ollim_bot.kernel.values.about_me import AboutMe
from ollim_bot.kernel.values.changes import ChangeFilter, ChangeList
from ollim_bot.kernel.values.costs import cost_report
from ollim_bot.kernel.values.job_list import DAYS, JobList, JobPast
from ollim_bot.kernel.values.push import PairingStatus, PhoneAttempt, PhoneView
from ollim_bot.kernel.values.receipts import Fate, RunFilter, RunList, Show
from ollim_bot.kernel.values.run_words import address_of_run
from ollim_bot.kernel.values.usage import Price, UsageKind, UsageRow
from ollim_bot.kernel.values.views import (
    HealthLine,
    HealthReport,
    Preview,
    SettingGroup,
    SettingsView,
    ViewAnswer,
)


async def test_each_line_about_me_has_its_source_and_can_be_changed_and_forgotten(
    scene: Scene, browser: Browser
) -> None:
    view = scene.reception.fakes.about_me
    assert "It has written down nothing" in about_me_html(AboutMe(SUNDAY.date()), 100)
    view.current = known()
    html = (await browser.get("/api/panels/about-me")).json["html"]
    words = words_of(html)
    assert f"About me {HOSTILE} cannot be read: it is not UTF-8 text. USER.md likes tea" in words
    assert "likes tea from your words of 3 May Edit Line 1 of USER.md Save Forget" in words
    assert f"{HOSTILE} from a web page read on 4 May Edit Line 7 of {HOSTILE} Save" in words
    assert "ollim-bot forget --everywhere" in words
    assert "1 left" in about_me_html(known(), 1)
    fields = {"file": "USER.md", "line": "1", "text": "likes tea"}
    await browser.post("/api/panels/about-me/actions", {"action": "forget", "fields": fields})
    assert view.acts == [("web", "forget", fields)]


async def test_changes_are_shown_as_words_and_one_is_undone_by_a_press(
    scene: Scene, browser: Browser
) -> None:
    changes = scene.reception.fakes.changes
    assert "Nothing was changed yet." in changes_html(ChangeList(SUNDAY), 100)
    nothing = ChangeList(SUNDAY, ChangeFilter(words="x"))
    assert "No change fits." in changes_html(nothing, 100)
    changes.current = full_list()
    html = (await browser.get("/api/panels/changes?who=agent&most=3")).json["html"]
    assert changes.asked == [{"who": "agent", "most": "3"}]
    words = words_of(html)
    assert f"today 11:30 changed {HOSTILE} by agent, {HOSTILE} · 11111111" in words
    assert f"with words of others: {HOSTILE} removed {HOSTILE} added line 0" in words
    assert "added line 4 3 more lines added line 5" in words
    assert f"setting:model.main by agent, {RUN} · 22222222 · undone was sonnet" in words
    assert html.count(f'href="{address_of_run(RUN)}"') == 1
    assert "Undo is not possible: The next moment of “pill” has come since." in words
    assert words.endswith(f"Older, from the history in git Fri 6 Nov 11:30 {HOSTILE} Show more")
    assert 'It was changed since.</bdi> <a href="/jobs/x">Edit</a>' in html
    assert html.count('data-action="undo"') == 1
    changes.answers["undo"] = ViewAnswer("It was undone before.", is_error=True)
    asked = {"action": "undo", "fields": {"id": "11111111"}}
    reply = (await browser.post("/api/panels/changes/actions", asked)).json
    assert "undone before" in reply["html"]
    assert changes.acts == [("web", "undo", {"id": "11111111"})]


async def test_the_first_look_asks_the_doctor_and_a_button_mends_and_looks_again() -> None:
    doctor = AllWell()
    doctor.found = [replace(warned("a lock is stale", "Remove it.", lambda: "gone"), name="files")]
    async with scene(scripted(), health=doctor) as at, asyncio.timeout(patience()):
        view = at.chat.views["health"]
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
        await changes.aclose()


def test_what_is_wrong_comes_first_with_its_next_step() -> None:
    html = health_html(full_report(), 100)
    words = words_of(html)
    assert "Looked 5 min ago." in words
    assert words.index("Fix it") < words.index("Right · 1")
    assert f"calendars wrong {HOSTILE} Run ollim-bot cal refresh ." in words
    assert "discord : the newest message there is from today 13:30; 2 messages on" in words
    assert "will stand here" in health_html(HealthReport(SUNDAY), 100)


async def test_each_job_stands_with_its_moments_its_days_in_words_and_a_button(
    scene: Scene, browser: Browser
) -> None:
    jobs = scene.reception.fakes.jobs
    jobs.current = replace(hostile_jobs(SUNDAY), found=7)
    html = (await browser.get("/api/panels/jobs?words=tea&kind=routine&most=2")).json["html"]
    assert jobs.asked == [{"words": "tea", "kind": "routine", "most": "2"}]
    words = words_of(html)
    assert (
        "Routine · On · at 14:30 on every day · next tomorrow, Mon 16 Nov, 14:30, "
        "then Tue 17 Nov, 14:30, then Wed 18 Nov, 14:30 · the next time is skipped"
    ) in words
    assert "1 on time, 1 waiting, 1 skipped (" in words
    assert "usually $0.0123 a run · last run today 13:30: " in words
    assert "Webhook · Paused" in words
    assert html.index("These files are wrong") < html.index("Not all in these files counts")
    assert "has cost nothing yet · not called lately" in words
    once = replace(hostile_jobs(SUNDAY).lines[0], past=JobPast(), asks_model=False)
    seldom = replace(once, asks_model=True)
    jobs.change(replace(jobs.current, lines=(once, seldom)))
    fresh = (await browser.get("/api/panels/jobs")).json["html"]
    assert "<bdi>free, no model is asked · has not come yet</bdi>" in fresh
    assert "<bdi>has cost nothing yet · has not come yet</bdi>" in fresh
    assert "Show more · 5 left" in words
    assert sum(bars.count("M") for bars in re.findall(r' d="([^"]+)"', html)) == DAYS
    assert 'href="/jobs/a%20b"' in html
    jobs.answers["pause"] = ViewAnswer("Paused.")
    asked = {"action": "pause", "fields": {"id": "a b"}}
    assert not (await browser.post("/api/panels/jobs/actions", asked)).json["is_error"]
    assert jobs.acts == [("web", "pause", {"id": "a b"})]


async def test_without_a_job_it_says_what_will_stand_there_and_what_to_do(
    scene: Scene, browser: Browser
) -> None:
    jobs = scene.reception.fakes.jobs
    empty = (await browser.get("/api/panels/jobs")).json["html"]
    assert "There are no jobs yet." in empty
    assert 'data-action="add"' in empty
    assert "data-filter" not in empty
    jobs.change(JobList(SUNDAY, all=3, words="zebra"))
    html = (await browser.get("/api/panels/jobs?words=zebra")).json["html"]
    assert 'No job fits. <a href="/jobs">Show all jobs</a>' in html
    assert 'value="zebra"' in html
    assert (await browser.get("/jobs")).status == 200


async def test_the_sums_stand_in_words_in_bars_and_in_tables(
    scene: Scene, browser: Browser
) -> None:
    scene.reception.fakes.money.current = spent()
    html = (await browser.get("/api/panels/money?since=7d")).json["html"]
    assert scene.reception.fakes.money.asked == [{"since": "7d"}]
    words = words_of(html)
    assert "$0.25 and your own server today · of $2.00 a day for jobs" in words
    assert "The dearest of 2 days was Sun 8 Nov: $1.00." in words
    assert "the conversation $1.2500 2 uses" in words
    assert f"{HOSTILE} your own server 1 use" in words
    assert html.count("<rect") == 2
    assert '<progress max="2.0000" value="0.2500"' in html


async def test_before_the_first_use_money_says_what_will_stand_there(
    scene: Scene, browser: Browser
) -> None:
    scene.reception.fakes.money.current = cost_report([], SUNDAY, SUNDAY, None)
    html = (await browser.get("/api/panels/money")).json["html"]
    assert "Nothing has been used yet." in html
    assert "<table" not in html


OWN_SERVER = UsageRow(SUNDAY, UsageKind.RUN, "qwen3:8b", Price.UNKNOWN, 0, 7, "", MORNING)


BUILT_IN = UsageRow(SUNDAY, UsageKind.TURN, "claude-opus-5-5", Price.FREE, 0, 7, "t")


@pytest.mark.parametrize(
    ("row", "amount", "kind", "model"),
    [
        (OWN_SERVER, "your own server", "jobs", "qwen3:8b"),
        (BUILT_IN, "free", "conversation", "built-in"),
    ],
)
async def test_what_has_no_price_is_no_headline_and_no_chart(
    scene: Scene, browser: Browser, row: UsageRow, amount: str, kind: str, model: str
) -> None:
    scene.reception.fakes.money.current = cost_report([row], SUNDAY, SUNDAY, 5.0)
    html = (await browser.get("/api/panels/money")).json["html"]
    words = words_of(html)
    assert words.startswith(f"Money {amount} this month {kind} {amount} Since")
    assert f"By model {model} {amount} 1 use" in words
    for absent in ("unknown", "opus", "large", "<rect", "<progress", "$", "dearest"):
        assert absent not in html


async def fragment(browser: Browser, path: str) -> tuple[str, str]:
    """The markup, which has nothing but what it may have, and its words."""
    html = (await browser.get(f"/api/panels/{path}")).json["html"]
    return html, words_of(html)


async def test_a_line_for_each_run_leads_to_it(scene: Scene, browser: Browser) -> None:
    fakes = scene.reception.fakes
    fakes.runs.current = hostile_list(SUNDAY)
    html, words = await fragment(browser, "runs?show=late&most=200")
    assert fakes.runs.asked == [{"show": "late", "most": "200"}]
    assert "Today: due 2, came 0, held 1, skipped 1, late 0, lost 0." in words
    assert "drink water skipped: the daily cost cap was reached" in words
    assert f'href="/runs/{SKIPPED.id}" aria-label="Why? drink water"' in html
    assert "%3Cimg" in html
    assert "Show older ones" in words
    fakes.today.current = DayView(SUNDAY, receipt=fakes.runs.current.receipt)
    html, words = await fragment(browser, "today")
    assert "Checked: everything that was due has its end or is under way." in words
    assert 'href="/runs?day=2026-11-15"' in html
    for run in (SKIPPED, SPOKE):
        assert (await browser.get(address_of_run(run.id))).status == 200


async def test_a_run_says_why_and_what_it_did_in_order(scene: Scene, browser: Browser) -> None:
    scene.reception.fakes.run.current = hostile_run(SUNDAY)
    html, words = await fragment(browser, f"run?id={SPOKE.job_id}")
    assert scene.reception.fakes.run.asked == [{"id": "door"}]
    for heading in ("Step by step", "Messages", "Report", "Read from others", "Tools used", "Cost"):
        assert f">{heading}</h3>" in html
    assert "7 tokens, $0.2500" in words
    assert 'href="/jobs/webhook:door">Edit' in html
    assert "\u202e" not in html


async def test_an_empty_list_of_runs_says_what_will_stand_there() -> None:
    assert "Nothing has run yet." in runs_html(RunList(SUNDAY, RunFilter()), 100)
    filtered = runs_html(RunList(SUNDAY, RunFilter(Show.LATE, "water", SUNDAY.date())), 100)
    assert "No run fits that." in filtered
    assert '<option value="late" selected>' in filtered
    assert 'name="day" value="2026-11-15"' in filtered


DRAWN = {"svg", "rect", "line", "polyline", "polygon", "circle", "text"}


SHAPES = {
    *("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "points", "width", "height", "viewbox"),
    *("preserveaspectratio", "overflow", "vector-effect", "text-anchor", "focusable"),
}


TABLE = {"table", "caption", "thead", "tbody", "tr", "th", "td"}


def test_the_week_is_plain_markup_in_which_every_text_is_words() -> None:
    week = full_week(SUNDAY)
    html = week_html(week, 100)
    markup = Markup(html)
    assert markup.tags <= TAGS | DRAWN | TABLE | {"a"}
    assert markup.attributes <= ATTRIBUTES | SHAPES | {"href", "scope", "tabindex"}
    assert any(word.startswith(shortened(HOSTILE, 40)[:-1]) for word in markup.words)
    assert "Ada’s birthday" in markup.words
    # The drawings have their numbers as tables; each line leads to its job.
    spent = [each for each in week.budget if each.paid or each.refused]
    assert html.count('<th scope="row">') == len(spent) + len(week.money.by_day)
    assert 'href="/jobs/routine:pills"' in html


def test_an_hour_with_more_than_twenty_moments_folds_and_has_a_list_of_its_own() -> None:
    week = full_week(SUNDAY)
    (full,) = (hour for day in week.days for hour in day.hours if hour.is_folded)
    html = week_html(week, 100)
    fold = html.partition(f'<details data-fold="hour {full.key}">')[2].partition("</details>")[0]
    assert "25 moments" in fold
    assert fold.count('<li class="thing') == 20
    assert f'href="/week?hour={full.key}"' in fold
    alone = replace(week, only=[full])
    assert week_html(alone, 100).count('<li class="thing') == 25
    first = week_html(alone, 10)
    assert first.count('<li class="thing') == 10
    assert "Show more · 15 left" in first
    assert 'href="/week"' in first


def test_an_empty_week_says_what_will_stand_here_and_what_to_do() -> None:
    week = full_week(SUNDAY)
    empty = replace(week, rehearsal=replace(week.rehearsal, fires=()), events=[], days=[])
    assert [word for word in Markup(week_html(empty, 100)).words if word][2:] == [
        "Nothing comes in the next seven days. What you add will stand here, hour by hour.",
        "Add one in Today",
    ]


SERVER = "https://push.example.org"


PAIRED = PairingStatus(SERVER, SINCE)


KEYS = (CODE.topic, CODE.reply_topic)


def drawn(**state: object) -> str:
    phone = replace(PhoneView(SINCE, OFFER), **state)  # type: ignore[arg-type]
    html = settings_html(SettingsView([SettingGroup(PHONE, ())], phone), 9)
    words_of(html)
    return html


def test_before_it_is_paired_all_is_said_and_no_server_is_chosen() -> None:
    html = drawn()
    before = html[: html.index("<form")]
    assert all(each in before for each in OFFER.told)
    assert html.index(OFFER.of_public) < html.index("Pair through push.example.net")
    assert 'name="server" autocomplete="off" placeholder' in html
    assert "value=" not in html
    assert "<code>ollim-bot push setup</code>" in html


def test_the_names_of_the_phone_are_shown_only_while_it_is_paired_or_when_asked_for() -> None:
    waiting = PhoneAttempt(SERVER, CODE, SINCE + timedelta(minutes=10))
    hidden = [drawn(), drawn(attempt=PhoneAttempt(SERVER)), drawn(paired=PAIRED)]
    shown = [drawn(attempt=waiting), drawn(paired=PAIRED, code=CODE)]
    assert not [each for each in hidden if any(key in each for key in KEYS)]
    assert all(key in each for each in shown for key in KEYS)
    assert "Waiting for your press, until 12:10." in shown[0]
    square = "M0 0h3v1h-3zM0 1h1v1h-1zM2 1h1v1h-1zM0 2h3v1h-3z"
    assert (
        f'viewBox="0 0 3 3" role="img" aria-label="The code to scan"><path d="{square}"'
        in (shown[0])
    )
    assert "No button was pressed yet." in hidden[2]
    pressed = drawn(paired=replace(PAIRED, last_press=SINCE - timedelta(days=1)))
    assert "Last press: yesterday 12:00." in pressed


def test_what_failed_is_told_where_it_is_heard() -> None:
    html = drawn(told="The server keeps nothing.", has_failed=True)
    assert 'class="problem" role="alert">The server keeps nothing.' in html


WHERE = ".venv/bin/ollim-bot"


SENTENCE = "Run `ollim-bot backup --to Käse`, then start `ollim-bot` again."


TYPED = f"Run `{WHERE} backup --to Käse`, then start `{WHERE}` again."


def as_text(html: str) -> str:
    """What is read, without what stands in a field or is another's words."""
    return re.sub(
        r"<textarea.*?</textarea>|<bdi.*?</bdi>|<code>|</code>", "", html, flags=re.DOTALL
    )


async def commands_on(browser: Browser, panel: str) -> list[str]:
    """The commands on a view, which all begin as this program is called."""
    html = as_text((await browser.get(f"/api/panels/{panel}")).json["html"])
    assert with_program(html, "elsewhere") == html, panel
    return re.findall(rf"{re.escape(WHERE)} [a-z-]+", html)


async def test_every_command_that_a_view_shows_can_be_typed(scene: Scene, browser: Browser) -> None:
    fakes = scene.reception.fakes
    await scene.reception.change(program=WHERE)
    came = hostile_list(SUNDAY).receipt
    assert came is not None
    lost = replace(came, things=[replace(each, fate=Fate.LOST) for each in came.things])
    fakes.today.current = replace(full_day(SUNDAY), reach=SENTENCE, receipt=lost)
    fakes.runs.current = replace(hostile_list(SUNDAY), receipt=lost)
    fakes.health.current = HealthReport(
        SUNDAY, (HealthLine("WARN", "copies", SENTENCE, SENTENCE),), SUNDAY
    )
    fakes.settings.current = SettingsView(
        [SettingGroup(PHONE, ())], PhoneView(SUNDAY, OFFER, told=SENTENCE, has_failed=True)
    )
    fakes.jobs.current = replace(hostile_jobs(SUNDAY), problems=tuple("abcdefgh"))
    listed = full_list()
    without = replace(listed.lines[0], difference=())
    fakes.changes.current = replace(listed, lines=(without,))
    fakes.about_me.current = known()
    found = {
        panel: await commands_on(browser, panel)
        for panel in ("today", "runs", "health", "settings", "jobs", "changes", "about-me")
    }
    assert all(found.values()), found


async def test_what_is_to_be_edited_and_the_words_of_others_keep_their_commands(
    scene: Scene, browser: Browser
) -> None:
    await scene.reception.change(program=WHERE)
    form = hostile_form()
    scene.reception.fakes.job.current = form.with_typed("", {}, file=SENTENCE)
    scene.reception.fakes.today.current = replace(
        full_day(SUNDAY), all_day=[replace(full_day(SUNDAY).all_day[0], title=SENTENCE)]
    )
    assert SENTENCE in (await browser.get("/api/panels/job?id=water")).json["html"]
    assert SENTENCE in (await browser.get("/api/panels/today")).json["html"]


@pytest.mark.parametrize("is_error", [False, True])
async def test_answers_previews_and_refusals_of_a_view_can_be_typed(
    scene: Scene, browser: Browser, is_error: bool
) -> None:
    await scene.reception.change(program=WHERE)
    day = scene.reception.fakes.today
    day.answers["add"] = ViewAnswer(SENTENCE, is_error=is_error)
    day.previews["add"] = Preview((SENTENCE,), is_error=is_error)
    asked = {"action": "add", "fields": {"line": "x"}}
    said = (await browser.post("/api/panels/today/actions", asked)).json["html"]
    assert re.sub("</?(?:p|code)>", "`", said).count(WHERE) == 2
    assert TYPED in (await browser.post("/api/panels/today/previews", asked)).json["html"]
    day.refusal = OllimError(SENTENCE)
    assert (await browser.get("/api/panels/today")).error == TYPED
