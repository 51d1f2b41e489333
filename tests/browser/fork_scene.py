"""A fork as the program opens and ends it, and where the page shows it."""

from __future__ import annotations

from dataclasses import replace

from playwright.async_api import Locator, Page
from tests.browser.scene import PageScene

from ollim_bot.kernel.values.cards import Button, ButtonStyle, Card, Color
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.ports import OpenFork

SAVE = Button("Keep all of it", "fork_save", style=ButtonStyle.SUCCESS)
REPORT = Button("Keep a summary", "fork_report", style=ButtonStyle.PRIMARY)
EXIT = Button("Leave it", "fork_exit", style=ButtonStyle.DANGER)
ENTRY = Card("Side conversation", "Topic: taxes", Color.PURPLE, buttons=(SAVE, REPORT, EXIT))
ENDED = Card("Side conversation ended — nothing kept", "", Color.PURPLE)
NO_TOPIC = "Side conversation, apart from the main one"
NOT_SAVED = "The main conversation has gone on since. Use **Keep a summary** instead."


async def enter(scene: PageScene, topic: str = "taxes") -> ChatMessage:
    """Open a fork as the program does: the card first, then the status."""
    card = await scene.core.say(ENTRY.text, Author.PROGRAM, card=ENTRY, in_fork=True)
    await scene.core.change(fork=OpenFork(topic, card.id))
    return card


async def end(scene: PageScene, card: ChatMessage) -> None:
    await scene.core.post(replace(card, card=ENTRY._replace(buttons=())))
    await scene.core.say(ENDED.text, Author.PROGRAM, card=ENDED, in_fork=True)
    await scene.core.change(fork=None)


def banner(page: Page, name: str = "Side conversation: taxes") -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def fork_button(page: Page, name: str) -> Locator:
    return page.locator("#fork").get_by_role("button", name=name)
