"""A push says as much as may leave the machine, and nothing of a text becomes more than text."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from unicodedata import category

from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.features.phone.ntfy_channel import (
    cut,
    is_over,
    leads_to_page,
    phone_buttons,
    wording,
)
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.text import literal
from ollim_bot.kernel.values.cards import Button, Card, CardLine
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.item_messages import card_message
from ollim_bot.kernel.values.jobs import ItemKind, JobSpec, Reminder
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.runtime_config import PushContent
from ollim_bot.kernel.values.taint import Untrusted

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
UNSEEN = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
FULL, TITLE, NONE = PushContent
APPROVE = Button("Allow", "approve", "k")


def due(words: str = "drink water", **more: object) -> ChatMessage:
    spec = JobSpec(id="r1", message=words, background=True, **more)  # type: ignore[arg-type]
    occurrence = Occurrence.scheduled(JobKind.REMINDER, "r1", NOW)
    item = DueItem.of(Reminder(spec, NOW), occurrence, MessageId(""), NOW)
    return card_message(item, occurrence, NOW)


def said(text: str, card: Card | None = None, name: str = "1", **more: object) -> ChatMessage:
    return ChatMessage(MessageId(name), NOW, Author.BACKGROUND, text, card=card, **more)  # type: ignore[arg-type]


STRANGE = Untrusted("mail", "a mail")
TAINTED = replace(due("pay Eve"), untrusted=STRANGE, footer="From untrusted content: a mail.")
APPROVAL = said("", Card("Run a command?", "rm -r notes", buttons=(APPROVE,)))
DIGEST = said("While it was quiet\n- water", Card("x", lines=(CardLine("water"),)), "digest-1")


def test_each_choice_of_content_sends_no_more_than_it_says() -> None:
    expected = {
        (0, FULL): ("drink water", "Ollim"),
        (0, TITLE): ("drink water", "Ollim"),
        (0, NONE): ("Ollim", "A reminder waits for you."),
        (1, FULL): ("pay Eve", "From untrusted content: a mail."),
        (1, TITLE): ("Ollim", "A reminder waits for you. (from untrusted content)"),
        (1, NONE): ("Ollim", "A reminder waits for you. (from untrusted content)"),
        (2, FULL): ("Run a command?", "rm -r notes"),
        (2, TITLE): ("Run a command?", "Ollim"),
        (2, NONE): ("Ollim", "I need an answer from you."),
        (3, FULL): ("Ollim", "While it was quiet\n- water"),
        (3, TITLE): ("Ollim", "Messages waited while it was quiet."),
        (3, NONE): ("Ollim", "Messages waited while it was quiet."),
        (4, FULL): ("news", "All is well."),
        (4, TITLE): ("news", "Ollim"),
        (4, NONE): ("Ollim", "There is something for you."),
    }
    ping = said("All is well.", job="news")
    messages = (due(), TAINTED, APPROVAL, DIGEST, ping)
    found = {
        (place, content): wording(message, content, "Ollim", NOW)[:2]
        for place, message in enumerate(messages)
        for content in PushContent
    }
    assert found == expected
    assert wording(TAINTED, FULL, "Ollim", NOW).tags == ("warning",)
    assert wording(due(), FULL, "Ollim", NOW).tags == ()
    event = said("Leave by 8:00.", Card("Leave by 8:00", literal("Dinner: [Ada]")))
    assert wording(event, FULL, "Ollim", NOW).text == "Dinner: [Ada]"


def test_the_phone_has_the_buttons_that_settle_a_card_and_no_others() -> None:
    dose = due("pill", kind=ItemKind.DOSE)
    labels = [[label for label, _ in phone_buttons(each)] for each in (due(), dose)]
    assert labels == [["Done", "10 min", "1 h"], ["Taken", "10 min", "1 h"]]
    agents = said("", Card("Tea?", buttons=(Button("Yes", "agent", "k"), APPROVE)))
    for message in (APPROVAL, DIGEST, agents, said("Hello")):
        assert [*phone_buttons(message)] == []
    assert [leads_to_page(each) for each in (DIGEST, APPROVAL, due())] == [True, True, False]
    card = due().card
    assert card is not None
    used = replace(due(), card=card._replace(buttons=(card.buttons[0]._replace(is_used=True),)))
    assert [is_over(each) for each in (due(), used, APPROVAL)] == [False, True, False]


@given(st.text(max_size=300), st.integers(20, 400))
def test_a_text_is_cut_at_a_character_and_fits(text: str, longest: int) -> None:
    found = cut(text, longest)
    size = len(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")) - 2
    assert size <= longest
    assert found == text or (found.endswith("…") and text.startswith(found[:-1]))


@given(st.text(max_size=200))
def test_no_text_becomes_more_than_title_and_text(text: str) -> None:
    words = wording(said(text, job=text, untrusted=STRANGE), FULL, "Ollim", NOW)
    assert words.text
    assert "\n" not in words.title
    unseen = {each for each in words.title + words.text if category(each) in UNSEEN}
    assert unseen <= {"\n", "\u200c", "\u200d"}
    assert (words.priority, words.tags) == (3, ("warning",))
