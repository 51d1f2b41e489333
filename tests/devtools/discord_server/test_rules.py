"""What Discord refuses is refused with the same status and code, and its invariants hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from devtools.localdiscord.faults import Buckets
from devtools.localdiscord.routes import page_of
from devtools.localdiscord.state import DiscordState, Message
from devtools.localdiscord.validation import DiscordError
from hypothesis import given
from hypothesis import strategies as st
from tests.devtools.discord_server.rest_client import RestClient


def button(**fields: Any) -> dict[str, Any]:
    return {"type": 2, "style": 1, "label": "Yes", "custom_id": "a", **fields}


def rows(*rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"components": [{"type": 1, "components": row} for row in rows]}


def embed(**fields: Any) -> dict[str, Any]:
    return {"embeds": [fields]}


def buttons(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [button(custom_id=str(number)) for number in range(start, start + count)]


TEXT = {"type": 10, "content": "words"}

ALLOWED = [
    {"content": "x" * 2000},
    {"content": "😀" * 2000},
    embed(title="x" * 256, description="x" * 4096),
    {"embeds": [{"title": "x"}] * 10},
    embed(description=f"  {'x' * 4096}\n"),
    embed(footer={"text": "x" * 2048}),
    embed(author={"name": "x" * 256}),
    embed(fields=[{"name": "n", "value": "v"}] * 25),
    embed(fields=[{"name": "x" * 256, "value": "x" * 1024}]),
    {"embeds": [{"description": "x" * 3000}, {"description": "x" * 3000}]},
    rows(*(buttons(5, 5 * row) for row in range(5))),
    rows([button(label="x" * 80)]),
    rows([button(custom_id="x" * 100)]),
    rows([button(label=None, emoji={"name": "✅"})]),
    rows([{"type": 2, "style": 5, "label": "Go", "url": "https://example.org"}]),
    {"nonce": "1" * 25},
    {"content": "", "flags": 1 << 15, "components": [TEXT] * 40},
]

WRONG = [
    ({"content": "x" * 2001}, ["content"]),
    ({"nonce": "1" * 26}, ["nonce"]),
    ({"flags": 1 << 15, "components": [TEXT] * 41}, ["components"]),
    ({"embeds": [{"title": "x"}] * 11}, ["embeds"]),
    (embed(title="x" * 257), ["embeds", "0", "title"]),
    (embed(description="x" * 4097), ["embeds", "0", "description"]),
    (embed(footer={"text": "x" * 2049}), ["embeds", "0", "footer", "text"]),
    (embed(author={"name": "x" * 257}), ["embeds", "0", "author", "name"]),
    (embed(fields=[{"name": "n", "value": "v"}] * 26), ["embeds", "0", "fields"]),
    (embed(fields=[{"name": "x" * 257, "value": "v"}]), ["embeds", "0", "fields", "0", "name"]),
    (embed(fields=[{"name": "n", "value": "x" * 1025}]), ["embeds", "0", "fields", "0", "value"]),
    (embed(fields=[{"name": "n", "value": " "}]), ["embeds", "0", "fields", "0", "value"]),
    ({"embeds": [{"description": "x" * 3000}, {"description": "x" * 3001}]}, ["embeds"]),
    (rows(*(buttons(1, row) for row in range(6))), ["components"]),
    (rows(buttons(6)), ["components", "0", "components"]),
    (rows([]), ["components", "0", "components"]),
    ({"components": [button()]}, ["components", "0", "type"]),
    (rows([button(label="x" * 81)]), ["components", "0", "components", "0", "label"]),
    (rows([button(label="")]), ["components", "0", "components", "0", "label"]),
    (rows([button(custom_id="x" * 101)]), ["components", "0", "components", "0", "custom_id"]),
    (rows([button(custom_id="")]), ["components", "0", "components", "0", "custom_id"]),
    (rows([button()], [button()]), ["components", "1", "components", "0", "custom_id"]),
    (rows([button(style=5)]), ["components", "0", "components", "0", "url"]),
    ({"message_reference": {"message_id": "1"}}, ["message_reference"]),
]


@pytest.mark.parametrize("fields", ALLOWED)
async def test_what_is_within_the_limits_is_taken(rest: RestClient, fields: dict[str, Any]) -> None:
    reply = await rest.send(**{"text": "words", **_as_text(fields)})
    assert reply.status == 200, reply.body


@pytest.mark.parametrize(("fields", "path"), WRONG)
async def test_what_is_beyond_is_refused_with_the_field(
    rest: RestClient, fields: dict[str, Any], path: list[str]
) -> None:
    reply = await rest.send(**_as_text(fields))
    assert (reply.status, reply.code) == (400, 50035)
    place = reply.body["errors"]
    for step in path:
        place = place[step]
    assert place["_errors"][0]["code"]
    assert rest.server.said == []


def _as_text(fields: dict[str, Any]) -> dict[str, Any]:
    return {("text" if name == "content" else name): value for name, value in fields.items()}


COMMAND = {"name": "model", "description": "Which one"}

OPTION = {"type": 3, "name": "name", "description": "Its name"}


@pytest.mark.parametrize(
    "wrong",
    [
        [{**COMMAND, "name": "Model"}],
        [{**COMMAND, "name": "two words"}],
        [{**COMMAND, "name": "x" * 33}],
        [{**COMMAND, "description": ""}],
        [{**COMMAND, "description": "x" * 101}],
        [COMMAND, COMMAND],
        [{**COMMAND, "options": [{**OPTION, "description": "x" * 101}]}],
        [{**COMMAND, "options": [OPTION, {**OPTION, "name": "b", "required": True}]}],
        [{**COMMAND, "options": [{**OPTION, "choices": [{"name": "", "value": ""}]}]}],
        [{**COMMAND, "options": [{**OPTION, "choices": [{"name": "a", "value": "a"}] * 26}]}],
    ],
)
async def test_commands_have_their_form(rest: RestClient, wrong: list[dict[str, Any]]) -> None:
    assert (await rest.put_commands(*wrong)).code == 50035
    assert rest.server.command_puts == 0


async def test_commands_that_are_put_again_keep_their_ids(rest: RestClient) -> None:
    [first] = (await rest.put_commands(COMMAND)).body
    [again] = (await rest.put_commands({**COMMAND, "description": "Another"})).body
    assert again["id"] == first["id"]
    assert rest.server.command_puts == 2
    assert rest.server.commands == [again]


START = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)


class AdjustableClock:
    """A clock that shows `passed` seconds after the start."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return self.passed


@given(st.lists(st.floats(-5, 5), max_size=30))
def test_each_id_is_greater_than_all_before(steps: list[float]) -> None:
    """Even when the clock is set back."""
    clock = AdjustableClock()
    state = DiscordState(clock.now, clock.monotonic)
    ids = []
    for step in steps:
        clock.passed += step
        ids.append(int(state.new_id()))
    assert ids == sorted(set(ids))


def test_an_id_holds_its_time() -> None:
    clock = AdjustableClock()
    milliseconds = (int(DiscordState(clock.now, clock.monotonic).new_id()) >> 22) + 1420070400000
    assert milliseconds == int(START.timestamp() * 1000)


@given(st.integers(0, 25), st.integers(1, 7))
def test_pages_in_either_direction_give_everything_once(count: int, limit: int) -> None:
    clock = AdjustableClock()
    state = DiscordState(clock.now, clock.monotonic)
    person = state.new_user("person")
    channel = state.dm_with(person)
    standing = [Message(state.new_id(), channel, person, START) for _ in range(count)]

    onwards, last = list[Message](), "0"
    while page := page_of(standing, {"limit": str(limit), "after": last}):
        onwards += page[::-1]
        last = page[0].id
    assert onwards == standing

    back, first = list[Message](), state.new_id()
    while page := page_of(standing, {"limit": str(limit), "before": first}):
        back += page
        first = page[-1].id
    assert back == standing[::-1]


@given(
    st.integers(1, 5),
    st.integers(1, 40).map(lambda quarters: quarters / 4),
    st.lists(st.integers(0, 12).map(lambda quarters: quarters / 4), min_size=1, max_size=40),
)
def test_no_more_pass_than_are_allowed_and_who_waits_passes(
    limit: int, per: float, steps: list[float]
) -> None:
    """A window begins with its first request and ends before the next one begins."""
    clock = AdjustableClock()
    buckets = Buckets(clock.monotonic)
    buckets.allow("send", limit, per)
    passed: list[float] = []
    for step in steps:
        clock.passed += step
        try:
            buckets.take("send", "channel")
        except DiscordError as refused:
            clock.passed += refused.after or 0.0
            buckets.take("send", "channel")
        passed.append(clock.passed)
    while passed:
        within = [at for at in passed if at < passed[0] + per]
        assert len(within) <= limit
        passed = passed[len(within) :]


def test_channels_are_counted_apart() -> None:
    buckets = Buckets(AdjustableClock().monotonic)
    buckets.allow("send", 1, 5.0)
    buckets.take("send", "one")
    buckets.take("send", "two")
    with pytest.raises(DiscordError):
        buckets.take("send", "one")
