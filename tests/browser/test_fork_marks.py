"""A fork in the conversation: nothing jumps, one announcement, and its messages are marked."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from playwright.async_api import Locator, Page, expect
from tests.browser.fork_scene import NOT_SAVED, SAVE, banner, end, enter, fork_button
from tests.browser.scene import (
    PageScene,
    announced,
    box,
    is_at_end,
    listen,
    message,
    messages,
    scroll_to,
    sent,
)

from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.events import TextStreamed
from ollim_bot.domain.ids import MessageId
from ollim_bot.ports import OpenFork

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def top_of(element: Locator) -> float:
    found = await element.bounding_box()
    assert found
    return found["y"]


async def test_a_fork_moves_neither_who_is_at_the_end_nor_the_text_that_is_read(
    scene: PageScene,
) -> None:
    await scene.post_many_old(40)
    page = await scene.open()
    place = await top_of(box(page))
    card = await enter(scene)
    await expect(banner(page)).to_be_visible()
    assert await is_at_end(page)
    await expect(message(page, "Topic: taxes")).to_be_in_viewport(ratio=1)
    await end(scene, card)
    await expect(page.locator("#fork")).to_be_hidden()
    assert await is_at_end(page)
    assert await top_of(box(page)) == place

    await scroll_to(page, 900)
    await expect(page.get_by_role("button", name="To the end")).to_be_visible()
    read = message(page, "old message 20")
    before = await top_of(read)
    card = await enter(scene)
    await expect(banner(page)).to_be_visible()
    assert abs(await top_of(read) - before) <= 1
    scene.core.answers[SAVE.custom_id] = CommandAnswer(NOT_SAVED, is_error=True)
    await fork_button(page, "Keep all of it").click()
    await expect(page.locator("#fork-answer")).to_be_visible()
    assert abs(await top_of(read) - before) <= 1
    await end(scene, card)
    await expect(page.locator("#fork")).to_be_hidden()
    assert abs(await top_of(read) - before) <= 1


async def test_what_was_said_in_a_fork_stays_marked(scene: PageScene, page: Page) -> None:
    await scene.core.say("before")
    card = await enter(scene)
    await scene.core.say("a question", Author.OWNER, in_fork=True)
    turn = scene.core.begin()
    await turn.show(TextStreamed("an answer"))
    marked = page.locator("#log > .in-fork")
    await expect(marked).to_have_count(3)
    await scene.core.say("an answer", in_fork=True, turn=turn.start.turn)
    await turn.end()
    await scene.core.say("a reminder", Author.BACKGROUND, job="Tea")
    await end(scene, card)
    await scene.core.say("after")
    for is_reloaded in (False, True):
        if is_reloaded:
            await page.reload()
        await expect(messages(page)).to_have_count(7)
        await expect(marked).to_have_count(4)
        await expect(page.get_by_role("article", name="in a side conversation")).to_have_count(4)
        await expect(
            page.get_by_role("article", name="You, in a side conversation, today")
        ).to_contain_text("a question")
        lines: list[list[float]] = await marked.evaluate_all("""all => all.map((it) => {
            const line = getComputedStyle(it, "::before");
            const {top, bottom, right} = it.getBoundingClientRect();
            const start = right - parseFloat(line.width) - parseFloat(line.borderLeftWidth);
            return [start, top + parseFloat(line.top), bottom - parseFloat(line.bottom)];
        })""")
        column = await message(page, "before").bounding_box()
        assert column
        for (start, _, end_of_one), (_, start_of_next, _) in pairwise(lines[:3]):
            assert abs(end_of_one - start_of_next) <= 1, "the line has a gap"
            assert 0 < start < column["x"]
        assert len({round(start) for start, _, _ in lines}) == 1, "the line is not straight"


async def is_announced_once(scene: PageScene, page: Page) -> ChatMessage:
    before = await messages(page).count()
    await listen(page)
    card = await enter(scene)
    await expect(banner(page)).to_be_visible()
    await scene.core.change(is_busy=True)
    await scene.core.say("an answer", in_fork=True)
    await end(scene, card)
    await expect(page.locator("#fork")).to_be_hidden()
    await scene.core.change(fork=OpenFork("rent", MessageId("to come")))
    await expect(banner(page, "Side conversation: rent")).to_be_visible()
    await scene.core.change(is_busy=False)
    to_come = replace(card, id=MessageId("to come"))
    await scene.core.post(to_come)
    await expect(messages(page)).to_have_count(before + 4)
    assert await announced(page) == [
        "Program: Side conversation\nTopic: taxes",
        "Ollim: an answer",
        "Program: Side conversation ended — nothing kept",
        "Side conversation: rent",
    ]
    return to_come


async def test_a_fork_is_announced_once_and_its_cards_look_like_cards(
    scene: PageScene, page: Page
) -> None:
    """This holds for a page that opens during the fork, and for messages that are being sent."""
    card = await enter(scene)
    await end(scene, card)
    entry, ended, said = (messages(page).nth(place) for place in range(3))
    await expect(entry.locator(".card button")).to_have_count(0)
    await expect(ended).to_contain_text("Side conversation ended — nothing kept")
    await scene.core.say("an answer")
    await expect(said).to_contain_text("an answer")
    look = "it => [getComputedStyle(it).fontSize, getComputedStyle(it).color]"
    assert await entry.evaluate(look) == await said.evaluate(look)
    dash = "it => getComputedStyle(it.querySelector('.body'), '::before').content"
    assert [await each.evaluate(dash) for each in (entry, ended)] == ["none", "none"]

    await end(scene, await is_announced_once(scene, page))
    await expect(page.locator("#fork")).to_be_hidden()

    await enter(scene)
    await page.reload()
    await expect(page.locator("#announcer")).to_have_text("Side conversation: taxes")
    await expect(banner(page)).to_be_visible()
    async with scene.without_server():
        await box(page).fill("are you there?")
        await box(page).press("Enter")
        await expect(page.locator(".owner.in-fork")).to_contain_text("not sent yet")
    await expect(sent(page, "are you there?")).to_have_count(1)
