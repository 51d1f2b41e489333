"""While an answer is written, nothing jumps, and a reader elsewhere is not scrolled away."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from playwright.async_api import Page, expect
from tests.browser.scene import (
    PageScene,
    box,
    is_at_end,
    message,
    messages,
    scroll_to,
    scroll_top,
    send,
    texts,
)

from ollim_bot.kernel.values.cards import Button, Card
from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.events import (
    CompactionStarted,
    EndCause,
    Noted,
    Retrying,
    TextCompleted,
    TextStreamed,
    TextWithdrawn,
    ToolEnded,
    ToolFailed,
    ToolRefused,
    ToolStarted,
)

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

# The page knows times to the millisecond.
_ONE_STAMP = 0.002
_LISTEN_TO_STATUS = """() => {
    window.heard = [];
    new MutationObserver((records) => {
        const nodes = records.flatMap((record) => [...record.addedNodes]);
        heard.push(...nodes.map((node) => node.textContent));
    }).observe(document.getElementById("doing"), {childList: true, subtree: true});
}"""
LONG = "\n\n".join(f"Paragraph {number} of a long answer." for number in range(60))


async def test_the_answer_grows_and_its_final_form_takes_the_same_place(
    scene: PageScene, page: Page
) -> None:
    """This holds too if the turn goes on afterwards."""
    turn = scene.core.begin()
    await turn.show(TextStreamed("First **part**.\n\nSecond"))
    written = messages(page)
    await expect(written).to_have_text("First part.\nSecond", use_inner_text=True)
    await expect(written).to_have_attribute("aria-busy", "true")
    await written.evaluate("it => { it.isTheSame = true }")
    await written.locator("p").first.evaluate("it => { it.isTheSame = true }")

    await turn.show(TextStreamed(" part."))
    await turn.end("First **part**.\n\nSecond part.")

    await expect(written.locator("p")).to_have_text(["First part.", "Second part."])
    await expect(written).not_to_have_attribute("aria-busy", "true")
    await expect(written.get_by_role("button", name="Reply")).to_have_count(1)
    assert await written.evaluate("it => it.isTheSame")
    assert await written.locator("p").first.evaluate("it => it.isTheSame"), "a block was made anew"

    turn = scene.core.begin()
    await turn.show(TextStreamed("An answer"))
    await expect(messages(page)).to_have_count(2)
    await scene.core.say("An answer.", turn=turn.start.turn)
    await expect(messages(page).get_by_role("button", name="Reply")).to_have_count(2)
    await expect(messages(page)).to_have_count(2)
    await expect(page.locator("#doing")).to_have_text("")
    await turn.end()


async def test_a_failed_attempt_is_withdrawn_and_who_wants_no_movement_gets_whole_paragraphs(
    scene: PageScene, page: Page
) -> None:
    turn = scene.core.begin()
    await turn.show(TextCompleted("Kept."), TextStreamed("Wrong\n\nworse\n\nmore"))
    await expect(messages(page)).to_contain_text("more")
    await turn.show(TextWithdrawn(), TextStreamed("Right"))
    await expect(messages(page)).to_contain_text("Right")
    await expect(messages(page)).to_have_text("Kept.\nRight", use_inner_text=True)
    await turn.end("Kept.\n\nRight")
    await expect(page.locator("#doing")).to_have_text("")

    await page.emulate_media(reduced_motion="reduce")
    turn = scene.core.begin()
    await turn.show(TextStreamed("Some words"))
    await expect(page.locator("#doing")).to_have_text("Writing…")
    await expect(messages(page)).to_have_count(1)
    await turn.show(TextStreamed(" more.\n\nSecond.\n\nThird"))
    await expect(messages(page)).to_have_count(2)
    await expect(messages(page).last).to_have_text("Some words more.")
    await turn.end("Some words more.\n\nSecond.\n\nThird.")
    await expect(messages(page).last.locator("p")).to_have_text(
        ["Some words more.", "Second.", "Third."]
    )


async def test_a_cut_off_answer_stays_above_the_message_that_cut_it_off(
    scene: PageScene, page: Page
) -> None:
    """A page that opens in the middle shows all of it too."""
    first = await scene.core.say("Tell me everything.", Author.OWNER)
    turn = scene.core.begin(first.id)
    await turn.show(ToolStarted("1", "Read", {"file_path": "a/b.md"}), TextStreamed("One\n\ntwo"))
    await expect(messages(page)).to_have_count(2)
    await expect(messages(page).last).to_contain_text("two")
    await asyncio.sleep(_ONE_STAMP)
    await scene.core.say("Just the colour.", Author.OWNER)
    order = ["Tell me everything.", "One\ntwo", "Just the colour."]
    await expect(texts(page)).to_have_text(order, use_inner_text=True)
    await page.reload()
    await expect(texts(page)).to_have_text(order, use_inner_text=True)
    await expect(page.get_by_role("button", name="1 step")).to_be_visible()
    await turn.show(TextStreamed(" and three"))
    order[1] += " and three"
    await expect(texts(page)).to_have_text(order, use_inner_text=True)
    await turn.end("One\n\ntwo and three", EndCause.INTERRUPTED)
    await scene.core.say("Blue.")
    order.append("Blue.")
    await expect(texts(page)).to_have_text(order, use_inner_text=True)
    await expect(message(page, "and three")).to_contain_text("cut off here")

    await is_asked_below_the_words_that_led_to_it(scene, page)
    await page.reload()
    await expect(messages(page)).to_have_count(6)
    await expect(messages(page).nth(4)).to_contain_text("It is full.")
    await expect(messages(page).last).to_contain_text("Allow Bash?")
    for place, text in enumerate(order):
        await expect(texts(page).nth(place)).to_have_text(text, use_inner_text=True)


async def is_asked_below_the_words_that_led_to_it(scene: PageScene, page: Page) -> None:
    before = await messages(page).count()
    turn = scene.core.begin()
    await turn.show(TextStreamed("I want to look at the disk."))
    await expect(messages(page)).to_have_count(before + 1)
    await asyncio.sleep(_ONE_STAMP)
    card = Card("Allow Bash?", buttons=(Button("No", "approve", "k1:no"),))
    await scene.core.say(card.text, Author.PROGRAM, card=card)
    await expect(messages(page).last).to_contain_text("Allow Bash?")
    await turn.end("I want to look at the disk.\n\nIt is full.")
    await expect(messages(page).nth(before)).to_contain_text("It is full.")


async def test_the_status_is_one_line_that_says_what_goes_on(scene: PageScene, page: Page) -> None:
    doing = page.locator("#doing")
    await expect(doing).to_have_text("")
    turn = scene.core.begin()
    await expect(doing).to_have_text("Thinking…")
    await turn.show(Noted("catching up on background activity..."))
    await expect(page.locator("#remark")).to_have_text("catching up on background activity...")
    await turn.show(ToolStarted("1", "Read", {"file_path": "/home/ada/notes/today.md"}))
    await expect(doing).to_have_text("Read(notes/today.md)")
    await turn.show(CompactionStarted())
    await expect(doing).to_have_text("Compacting…")
    await turn.show(ToolEnded("1"), TextStreamed("So"))
    await expect(doing).to_have_text("Writing…")

    await turn.end("So.")

    await expect(doing).to_have_text("")
    await expect(page.locator("#elapsed")).to_have_text("")
    await expect(page.get_by_role("button", name="Stop")).to_be_hidden()

    await send(page, "Are you there?")
    await scene.core.change(is_busy=True)
    await expect(doing).to_have_text("Waiting…")
    turn = scene.core.begin()
    await expect(doing).to_have_text("Thinking…")
    await turn.show(Retrying(2, 3, "overloaded", timedelta(seconds=2)))
    await expect(doing).to_have_text("Retrying (2 of 3)…")
    await turn.end("Yes.")
    await expect(doing).to_have_text("")


@pytest.mark.own_context
async def test_the_seconds_of_a_turn_pass_and_are_not_said_each_time(scene: PageScene) -> None:
    await scene.context.clock.install()
    page = await scene.open()
    doing, seconds = page.locator("#doing"), page.locator("#elapsed")
    await page.evaluate(_LISTEN_TO_STATUS)
    turn = scene.core.begin()
    await expect(doing).to_have_text("Thinking…")
    await expect(seconds).to_have_text("0s")
    await page.clock.run_for(3_000)
    await expect(seconds).to_have_text("3s")
    await turn.show(ToolStarted("1", "Read", {"file_path": "a.md"}))
    await expect(doing).to_have_text("Read(a.md)")
    await turn.show(TextStreamed("a"), TextStreamed(" b"), ToolEnded("1"))
    await expect(doing).to_have_text("Thinking…")
    await page.clock.run_for(62_000)
    await expect(seconds).to_have_text("1m 5s")
    assert await page.evaluate("heard") == ["Thinking…", "Read(a.md)", "Thinking…"]
    assert await doing.get_attribute("role") == "status"
    assert await seconds.get_attribute("aria-hidden") == "true"
    await turn.end()
    await expect(seconds).to_have_text("")


async def test_the_steps_fold_out_on_demand_and_the_turn_can_be_stopped(
    scene: PageScene, page: Page
) -> None:
    turn = scene.core.begin()
    await turn.show(
        ToolStarted("1", "Grep", {"pattern": "tea"}),
        ToolEnded("1"),
        ToolStarted("2", "Bash", {"command": "rm -r /"}),
        ToolRefused("2", "Bash", "the owner said no"),
        ToolStarted("3", "Read", {"file_path": "a/b.md"}),
        ToolFailed("3", "no such file"),
    )
    steps = page.get_by_role("list", name="Steps of this turn")
    button = page.get_by_role("button", name="3 steps")
    await expect(button).to_have_attribute("aria-expanded", "false")
    await expect(steps).to_be_hidden()
    await button.click()
    await expect(button).to_have_attribute("aria-expanded", "true")
    await expect(steps.get_by_role("listitem")).to_have_text(
        [
            "Grep(tea)done",
            "Bash(rm -r /)refused: the owner said no",
            "Read(a/b.md)failed: no such file",
        ]
    )
    await expect(steps.locator("s")).to_have_text("Bash(rm -r /)")
    await turn.end("Done.")
    await expect(steps).to_be_hidden()
    await expect(button).to_be_hidden()

    turn = scene.core.begin()
    await page.get_by_role("button", name="Stop").click()
    await expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    assert turn.is_over

    turn = scene.core.begin()
    await turn.show(TextStreamed("It was a dark and"))
    await expect(messages(page).last).to_contain_text("dark")
    await box(page).press("Escape")
    await expect(page.locator("#doing")).to_have_text("")
    assert turn.is_over

    await scene.core.say("It was a stormy", is_cut_off=True)
    await expect(message(page, "It was a stormy")).to_contain_text("cut off here")


async def test_the_view_follows_who_is_at_the_end_and_holds_still_for_who_reads_further_up(
    scene: PageScene, page: Page
) -> None:
    place = await box(page).bounding_box()
    turn = scene.core.begin()
    await turn.show(TextStreamed(LONG))
    await expect(message(page, "Paragraph 59")).to_be_visible()
    assert await is_at_end(page)
    assert await box(page).bounding_box() == place
    await turn.end(LONG)
    await expect(messages(page).get_by_role("button", name="Reply")).to_have_count(1)
    assert await is_at_end(page)
    await expect(page.get_by_role("button", name="To the end")).to_be_hidden()
    await expect(page.locator("#doing")).to_have_text("")
    assert await box(page).bounding_box() == place

    await scroll_to(page, 300)
    await expect(page.get_by_role("button", name="To the end")).to_be_visible()
    turn = scene.core.begin()
    await turn.show(TextStreamed(LONG))
    to_new = page.get_by_role("button", name="New messages")
    await expect(to_new).to_be_visible()
    await turn.end(LONG)
    await expect(page.locator("#doing")).to_have_text("")
    assert await scroll_top(page) == 300
    await to_new.click()
    await expect(to_new).to_be_hidden()
    assert await is_at_end(page)

    await scroll_to(page, 300)
    await send(page, "Here I am.")
    await expect(message(page, "Here I am.")).to_be_in_viewport()
    assert await is_at_end(page)
