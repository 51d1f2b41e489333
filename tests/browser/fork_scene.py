"""A fork as the program opens and ends it, and where the page shows it."""

from __future__ import annotations

from dataclasses import replace

from playwright.async_api import Locator, Page
from tests.browser.stage import Stage

from ollim_bot.domain.cards import Button, ButtonStyle, Card, Color
from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.ports import OpenFork

SAVE = Button("Save Context", "fork_save", style=ButtonStyle.SUCCESS)
REPORT = Button("Report", "fork_report", style=ButtonStyle.PRIMARY)
EXIT = Button("Exit Fork", "fork_exit", style=ButtonStyle.DANGER)
ENTRY = Card("Forked Session", "Topic: taxes", Color.PURPLE, buttons=(SAVE, REPORT, EXIT))
ENDED = Card("Fork Ended — discarded", "", Color.PURPLE)
NO_TOPIC = "Fork — separate from the main conversation"
NOT_SAVED = "The main conversation has gone on since. Use **Report** instead."


async def enter(stage: Stage, topic: str = "taxes") -> ChatMessage:
    """As the program does it: the card first, then the status."""
    card = await stage.core.say(ENTRY.text, Author.PROGRAM, card=ENTRY, in_fork=True)
    await stage.core.change(fork=OpenFork(topic, card.id))
    return card


async def end(stage: Stage, card: ChatMessage) -> None:
    used = tuple(replace(each, is_used=True) for each in ENTRY.buttons)
    await stage.core.post(replace(card, card=replace(ENTRY, buttons=used)))
    await stage.core.say(ENDED.text, Author.PROGRAM, card=ENDED, in_fork=True)
    await stage.core.change(fork=None)


def banner(page: Page, name: str = "Fork: taxes") -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def way(page: Page, name: str) -> Locator:
    return page.locator("#fork").get_by_role("button", name=name)
