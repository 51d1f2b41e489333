"""A long answer on Discord: whole, in order, readable while it comes, and within the allowance."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise

import pytest
from devtools.localdiscord.server import RecordedRequest
from tests.e2e.discord.answers import is_balanced, long_answer, tokens
from tests.e2e.discord.talk import Talk

from ollim_bot.offline.messages import Reply, Say

LONGEST = 2000
# Seconds; on a machine that is busy otherwise everything takes longer, and this too.
BEHIND = 3.0


@dataclass(frozen=True, slots=True)
class Course:
    """How a question was answered: when it was asked and when the answer was whole on the page,
    and the sends and edits on Discord from then to the end. `pace` is how many seconds the model
    would take by itself."""

    pace: float
    asked_at: float
    whole_at: float
    requests: list[RecordedRequest]

    @property
    def seconds(self) -> float:
        return self.requests[-1].at - self.asked_at

    @property
    def behind(self) -> float:
        return self.requests[-1].at - self.whole_at

    @property
    def patience(self) -> float:
        return BEHIND * max(1.0, (self.whole_at - self.asked_at) / (self.pace + 2.0))

    @property
    def longest_pause(self) -> float:
        """Between two of them: how long nothing new was to be read."""
        return max(after.at - before.at for before, after in pairwise(self.requests))

    @property
    def edits(self) -> int:
        return sum(each.method == "PATCH" for each in self.requests)


async def streamed(talk: Talk, text: str, *, chunk: int = 20, pace: float = 0.005) -> Course:
    """The answer of the model, until all of it stands on Discord and the bot is at rest."""
    begin, asked_at = len(talk.discord.requests), time.monotonic()
    talk.model.then(Reply((Say(text),), pace=pace, chunk=chunk))
    talk.discord.say("tell me all about tea")
    await talk.bot.answer()
    whole_at = time.monotonic()
    await talk.until(lambda: tokens(talk.discord.texts[1:]) == tokens([text]))
    await talk.until(lambda: not any(each.reactions for each in talk.discord.messages))
    about_messages = [
        each
        for each in talk.discord.requests[begin:]
        if each.method in ("POST", "PATCH") and "/messages" in each.path
    ]
    return Course(pace * len(text) / chunk, asked_at, whole_at, about_messages)


def is_whole_and_readable(talk: Talk, text: str) -> None:
    """What stands there in the end, and what stood there meanwhile."""
    texts = talk.discord.texts[1:]
    assert tokens(texts) == tokens([text])
    for message in talk.discord.said[1:]:
        for shown in message.texts:
            assert 0 < len(shown) <= LONGEST
            assert is_balanced(shown)
    rows = [line for line in text.split("\n") if line.startswith(("|", "-", "1."))]
    lines = {line for each in texts for line in each.split("\n")}
    assert [row for row in rows if row not in lines] == []


def nothing_was_refused(talk: Talk) -> None:
    assert talk.discord.rate_limited == 0
    assert [each for each in talk.discord.requests if each.status == 429] == []


async def test_a_long_answer_stands_whole_and_costs_no_more_than_the_allowance(talk: Talk) -> None:
    """The usual allowance is per five seconds; here all of it goes five times as fast."""
    talk.discord.allowance(5, 1.0)
    text = long_answer()
    course = await streamed(talk, text)

    is_whole_and_readable(talk, text)
    nothing_was_refused(talk)
    pieces = len(talk.discord.texts) - 1
    sends = len(course.requests) - course.edits
    assert sends == pieces
    assert course.edits <= 1.2 * (course.seconds * 5 / 1.0 + pieces)
    assert course.behind < course.patience
    assert course.longest_pause < course.patience


async def test_an_answer_keeps_up_with_the_model_at_the_usual_allowance(talk: Talk) -> None:
    text = long_answer(5000)
    course = await streamed(talk, text, pace=0.008)

    is_whole_and_readable(talk, text)
    nothing_was_refused(talk)
    assert course.edits <= 1.2 * (course.seconds * 5 / 5.0 + len(talk.discord.texts) - 1)
    assert course.behind < course.patience
    assert course.longest_pause < course.patience


@pytest.mark.parametrize(("limit", "per"), [(2, 5.0), (10, 1.0)])
async def test_an_allowance_that_changes_in_the_middle_is_kept_too(
    talk: Talk, limit: int, per: float
) -> None:
    text = long_answer(4500)
    talk.model.then(Reply((Say(text),), pace=0.01, chunk=20))
    talk.discord.say("tell me all about tea")
    await talk.said_with("Chapter 1")
    talk.discord.allowance(limit, per)
    await talk.until(lambda: tokens(talk.discord.texts[1:]) == tokens([text]))

    is_whole_and_readable(talk, text)
    nothing_was_refused(talk)
