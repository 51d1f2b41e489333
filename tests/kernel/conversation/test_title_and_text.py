"""A reminder with a description says both on every channel: that as its title, and its text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from tests.terminal import Terminal

from ollim_bot.features.phone.ntfy_channel import wording
from ollim_bot.features.quiet import digest_message
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import Nag
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.digest import Digest, HeldMessage
from ollim_bot.kernel.values.due_items import DueItem, open_card
from ollim_bot.kernel.values.item_messages import card_message, item_message
from ollim_bot.kernel.values.jobs import JobSpec, Reminder, Routine
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.runtime_config import PushContent
from ollim_bot.surfaces.discord.rendering import outgoing_of, parts_of
from ollim_bot.surfaces.web.frames import card_json

NOW = datetime(2026, 11, 18, 9, 41, 7, 123_457, tzinfo=ZoneInfo("Asia/Kathmandu"))
TITLE, TEXT = "Zahnarzt", "Das Röntgenbild mitbringen, Raum 3.12"
FIVE = timedelta(minutes=5)


def on_discord(message: ChatMessage) -> str:
    sent = [outgoing_of(each) for each in parts_of(message)]
    cards = [each.card for each in sent if each.card]
    return "\n".join([*(each.text for each in sent), *(each.text for each in cards)])


def on_the_page(message: ChatMessage) -> str:
    return message.text if message.card is None else str(card_json(message.card))


def on_the_phone(message: ChatMessage) -> str:
    words = wording(message, PushContent.FULL, "Ollim", NOW)
    return f"{words.title}\n{words.text}"


def as_a_notification(message: ChatMessage) -> str:
    return message.text


CHANNELS = (on_discord, on_the_page, on_the_phone, as_a_notification)


def spec(**more: object) -> JobSpec:
    made = JobSpec(id="zahn", message=TEXT, description=TITLE, plain=True)
    return replace(made, **more)  # type: ignore[arg-type]


def reminder(**more: object) -> Reminder:
    return Reminder(spec(**more), NOW)


DUE = Occurrence.scheduled(JobKind.REMINDER, "zahn", NOW)
AGAIN = Nag(FIVE, 3)
DAILY = Routine(spec(), Cron.parse("41 9 * * *"))


def in_digest(job: Reminder) -> ChatMessage:
    message, item = item_message(job, DUE, NOW)
    held = HeldMessage(message)
    return digest_message(Digest.of([held], NOW), {item.key: item}, frozenset(), NOW)


MESSAGES: dict[str, Callable[[], ChatMessage]] = {
    "plain": lambda: item_message(reminder(), DUE, NOW)[0],
    "of a routine": lambda: item_message(
        DAILY, Occurrence.scheduled(JobKind.ROUTINE, "zahn", NOW), NOW
    )[0],
    "because the model failed": lambda: item_message(reminder(plain=False), DUE, NOW, "Down.")[0],
    "words of others": lambda: item_message(reminder(untrusted="web page"), DUE, NOW)[0],
    "with a nag": lambda: item_message(reminder(nag=AGAIN), DUE, NOW)[0],
    "brought back by an undo": lambda: card_message(
        DueItem.of(reminder(), DUE, MessageId("1"), NOW), DUE, NOW
    ),
    "after the quiet": lambda: in_digest(reminder()),
    "several lines": lambda: item_message(reminder(message=f"{TEXT}\nUnd Zeit."), DUE, NOW)[0],
}


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("name", MESSAGES)
def test_the_title_and_the_text_are_both_said(
    name: str, channel: Callable[[ChatMessage], str]
) -> None:
    said = channel(MESSAGES[name]())
    assert TITLE in said
    assert TEXT in said
    assert said.index(TITLE) < said.index(TEXT)


def test_what_is_the_same_is_said_once_and_the_title_stays_short() -> None:
    item = DueItem.of(reminder(description=f"{TEXT}."), DUE, MessageId("1"), NOW)
    card = open_card(item, NOW)
    assert (card.title, card.description) == (f"{TEXT}.", "")
    alone = open_card(DueItem.of(reminder(message=""), DUE, MessageId("1"), NOW), NOW)
    assert (alone.title, alone.description) == (TITLE, "")
    long = open_card(DueItem.of(reminder(description="Ä" * 300), DUE, MessageId("1"), NOW), NOW)
    assert (long.title, long.description) == ("Reminder", f"{'Ä' * 300}\n{TEXT}")


@pytest.mark.real_process
def test_the_command_line_shows_both(tmp_path: object) -> None:
    terminal = Terminal(tmp_path)  # type: ignore[arg-type]
    terminal.done("reminder", "add", "-m", TEXT, "--description", TITLE, "--in", "2h", "--id", "z")
    shown = terminal.done("reminder", "show", "z")
    assert shown.startswith(f"{TITLE}\n")
    assert shown.rstrip().endswith(TEXT)
    assert "as written, below its description" in shown
