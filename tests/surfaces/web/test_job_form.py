"""The form of a job on the page: its address, its fields, a conflict; every text is data."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from tests.surfaces.web.browser import Browser
from tests.surfaces.web.scene import Scene
from tests.surfaces.web.views import HOSTILE, NOW, hostile_form

from ollim_bot.features.jobs.jobs_view import job_html
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.values.job_form import JobForm
from ollim_bot.kernel.values.jobs import JobText
from ollim_bot.kernel.values.views import Preview, ViewAnswer

TAGS = {
    *("h2", "bdi", "p", "div", "button", "details", "summary", "form", "input", "label", "select"),
    *("option", "textarea", "pre", "section", "ul", "li", "a", "code"),
}


class Drawn(HTMLParser):
    """The tags of a fragment, the values of its fields by their names, and its words."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.actions: list[str] = []
        self.values: dict[str, str] = {}
        self.words = ""
        self._box = self._choice = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.add(tag)
        assert not [name for name in given if name.startswith("on") or name == "style"]
        if "data-action" in given:
            self.actions.append(given["data-action"])
        if tag == "input":
            self.values[given["name"]] = given.get("value", "")
        if tag == "textarea":
            self._box = given["name"]
            self.values[self._box] = ""
        if tag == "select":
            self._choice = given["name"]
        if tag == "option" and "selected" in given:
            self.values[self._choice] = given["value"]

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self.values[self._box] = self.values[self._box].removeprefix("\n")
            self._box = ""

    def handle_data(self, data: str) -> None:
        if self._box:
            self.values[self._box] += data
        else:
            self.words += data


def test_each_field_holds_its_text_and_no_text_is_markup() -> None:
    form = hostile_form()
    shown = Drawn(job_html(form, 100))
    assert shown.tags <= TAGS
    assert {name: shown.values[name] for name in form.values} == form.values
    assert shown.values["file"] == form.file.text
    assert shown.actions == ["skip", "run", "pause", "delete", "my-words", "save", "save-file"]
    assert "\u202e" not in shown.words, "a character that turns words around is shown as its code"
    assert "next tomorrow, Wed 18 Nov, 9:00 · then Thu 19 Nov, 9:00" in shown.words


def test_a_conflict_shows_what_was_typed_and_what_the_file_has() -> None:
    form = replace(hostile_form(), untrusted="")
    typed = form.with_typed("Two.", {"when": "every day at 8:00", "must": "no"}, "the whole file")
    html = job_html(typed, 100)
    shown = Drawn(html)
    assert (shown.values["when"], shown.values["must"]) == ("every day at 8:00", "no")
    assert shown.values["file"] == "the whole file"
    assert "In the file now: at 9:00 every weekday" in shown.words
    assert "In the file now: As usual (No)" in shown.words
    assert shown.words.count("Save anyway") == 2
    assert '<a class="take" href="/jobs/plan">' in html


def test_a_wrong_file_has_no_fields_but_its_text_and_its_mistakes() -> None:
    problems = [f"Line 3: nag: {HOSTILE}"]
    file = JobText("a b.md", "x")
    form = JobForm("a b.md", JobKind.REMINDER, "a b.md", file, NOW, problems=problems)
    shown = Drawn(job_html(form, 100))
    assert shown.tags <= TAGS
    assert shown.actions == ["save-file"]
    assert "Line 3: nag:" in shown.words


async def test_a_job_has_an_address_and_its_form_posts_what_was_typed(
    scene: Scene, browser: Browser
) -> None:
    page, fake = await browser.get("/"), scene.reception.fakes.job
    assert (await browser.get("/jobs/plan")).body == page.body
    fake.current = hostile_form()
    assert Drawn((await browser.get("/api/panels/job?id=plan")).json["html"]).values["version"]
    assert fake.asked == [{"id": "plan"}]
    both = "/jobs/plan?draft=1"
    fake.answers["save"] = ViewAnswer("No.", is_error=True, field="when", go=both)
    fake.previews["save"] = Preview(("tomorrow, Wed 18 Nov, 9:00 · once", f"adds {HOSTILE}"))
    body = {"action": "save", "fields": {"id": "plan", "when": "x"}}
    answer = (await browser.post("/api/panels/job/actions", body)).json
    assert (answer["field"], answer["go"]) == ("when", both)
    html = (await browser.post("/api/panels/job/previews", body)).json["html"]
    assert "<img" not in html
    assert fake.acts == [("web", "save", body["fields"])]
