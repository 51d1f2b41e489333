"""A long answer on Discord: whole, in order, readable while it comes, and within the allowance."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from devtools.localdiscord.server import RecordedRequest
from tests.e2e.discord.answers import is_balanced, long_answer, tokens
from tests.e2e.discord.discord_scene import DiscordScene

from ollim_bot.offline.server import Reply, Say
from ollim_bot.surfaces.discord.split import with_tables

LONGEST = 2000
# In seconds; more on a busy machine.
BEHIND = 3.0


@dataclass(frozen=True, slots=True)
class StreamedAnswer:
    """When a question was asked, when its answer was complete on the page, and the sends and edits
    on Discord. `pace` is how many seconds the model alone takes."""

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
        """The longest time without a new text on Discord."""
        return max(after.at - before.at for before, after in pairwise(self.requests))

    @property
    def edits(self) -> int:
        return sum(each.method == "PATCH" for each in self.requests)


async def streamed(
    scene: DiscordScene, text: str, *, chunk: int = 20, pace: float = 0.005
) -> StreamedAnswer:
    """Ask, and wait until Discord has the whole answer and the bot is idle."""
    begin, asked_at = len(scene.discord.requests), scene.now
    scene.model.then(Reply((Say(text),), pace=pace, chunk=chunk))
    scene.discord.say("tell me all about tea")
    await scene.bot.answer()
    whole_at = scene.now
    await scene.until(lambda: tokens(scene.discord.texts[1:]) == tokens([with_tables(text)]))
    await scene.until(lambda: not any(each.reactions for each in scene.discord.messages))
    about_messages = [
        each
        for each in scene.discord.requests[begin:]
        if each.method in ("POST", "PATCH") and "/messages" in each.path
    ]
    return StreamedAnswer(pace * len(text) / chunk, asked_at, whole_at, about_messages)


def is_whole_and_readable(scene: DiscordScene, text: str) -> None:
    """The final text is complete, and each earlier version was readable."""
    texts, drawn = scene.discord.texts[1:], with_tables(text)
    assert tokens(texts) == tokens([drawn])
    for message in scene.discord.said[1:]:
        for shown in message.texts:
            assert 0 < len(shown) <= LONGEST
            assert is_balanced(shown)
    rows = [line for line in drawn.split("\n") if line.startswith(("-", "1.")) or "°C" in line]
    lines = {line for each in texts for line in each.split("\n")}
    assert [row for row in rows if row not in lines] == []


def nothing_was_refused(scene: DiscordScene) -> None:
    assert scene.discord.rate_limited == 0
    assert [each for each in scene.discord.requests if each.status == 429] == []


async def test_a_long_answer_stands_whole_and_costs_no_more_than_the_allowance(
    scene: DiscordScene,
) -> None:
    """The usual rate limit is per five seconds; here everything is five times as fast."""
    scene.discord.allowance(5, 1.0)
    text = long_answer()
    answer = await streamed(scene, text)

    is_whole_and_readable(scene, text)
    nothing_was_refused(scene)
    pieces = len(scene.discord.texts) - 1
    sends = len(answer.requests) - answer.edits
    assert sends == pieces
    assert answer.edits <= 1.2 * (answer.seconds * 5 / 1.0 + pieces)
    assert answer.behind < answer.patience
    assert answer.longest_pause < answer.patience
