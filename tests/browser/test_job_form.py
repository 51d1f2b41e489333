"""The form of a job in the browser: previewed, refused, kept while typing, and in conflict."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.async_api import expect
from tests.browser.scene import PageScene
from tests.surfaces.web.views import hostile_form

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.values.cards import Card
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.views import Preview, ViewAnswer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_job_is_edited_from_its_card_and_nothing_typed_is_lost(scene: PageScene) -> None:
    fake, form = scene.core.fakes.job, hostile_form()
    fake.current = form
    fake.previews["save"] = Preview(("tomorrow, Wed 18 Nov, 9:00 · once", *["a line"] * 5))
    fake.answers["save"] = ViewAnswer("`soon` is not a rhythm.", is_error=True, field="when")
    page = await scene.open(width=390, height=844)
    card = Card("Routine changed: the plan", job="plan")
    now = scene.core.now()
    await scene.core.post(
        ChatMessage(MessageId("m-card"), now, Author.PROGRAM, card.text, card=card)
    )
    await page.get_by_role("link", name="Edit: Routine changed: the plan").click()
    await expect(page).to_have_url(f"http://{scene.host}/jobs/plan")
    when, save = page.get_by_label("How often"), page.get_by_role("button", name="Save")
    await when.fill("soon")
    await expect(page.get_by_text("tomorrow, Wed 18 Nov, 9:00 · once")).to_be_visible()
    field, end = await when.bounding_box(), await page.locator(".end").first.bounding_box()
    assert field
    assert end
    assert field["y"] + field["height"] < end["y"]
    await save.first.click()
    await expect(page.get_by_text("soon is not a rhythm.")).to_be_visible()
    await expect(when).to_be_focused()
    await expect(when).to_have_value("soon")

    # The file changes meanwhile: the form stays the one of the version that was shown.
    fake.change(replace(form, title="Changed meanwhile", file=form.file._replace(text="new")))
    await expect(page.get_by_role("heading", name="Changed meanwhile")).to_be_visible()
    await expect(when).to_have_value("soon")
    fake.answers["save"] = ViewAnswer("Both.", is_error=True, go="/jobs/plan?draft=d1")
    fake.current = fake.current.with_typed("Two.", {"when": "soon"})
    await save.first.click()
    await expect(page.get_by_text("In the file now: at 9:00 every weekday")).to_be_visible()
    await expect(page.get_by_role("button", name="Save anyway").first).to_be_visible()
    _, action, fields = fake.acts[-1]
    assert (action, fields["version"], fields["when"]) == ("save", form.file.version, "soon")
    assert fields["text"] == form.values["text"]
    assert fake.asked[-1] == {"id": "plan", "draft": "d1"}

    fake.current = form
    await page.get_by_role("link", name="Take the file’s").click()
    await expect(page).to_have_url(f"http://{scene.host}/jobs/plan")
    await expect(when).to_have_value("at 9:00 every weekday")
    fake.answers["delete"] = ViewAnswer("Cancelled.", go="/today")
    await page.get_by_text("Delete", exact=True).click()
    await page.get_by_role("button", name="Delete it").click()
    await expect(page).to_have_url(f"http://{scene.host}/today")
