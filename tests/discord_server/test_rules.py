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
from tests.discord_server.rest_client import RestClient


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
    pytest.param({"content": "x" * 2000}, id="2000 characters"),
    pytest.param({"content": "😀" * 2000}, id="2000 characters of four bytes"),
    pytest.param(embed(title="x" * 256, description="x" * 4096), id="a full embed"),
    pytest.param({"embeds": [{"title": "x"}] * 10}, id="10 embeds"),
    pytest.param(embed(description=f"  {'x' * 4096}\n"), id="embeds are trimmed first"),
    pytest.param(embed(footer={"text": "x" * 2048}), id="footer 2048"),
    pytest.param(embed(author={"name": "x" * 256}), id="author 256"),
    pytest.param(embed(fields=[{"name": "n", "value": "v"}] * 25), id="25 fields"),
    pytest.param(embed(fields=[{"name": "x" * 256, "value": "x" * 1024}]), id="field 256/1024"),
    pytest.param(
        {"embeds": [{"description": "x" * 3000}, {"description": "x" * 3000}]}, id="6000 in all"
    ),
    pytest.param(rows(*(buttons(5, 5 * row) for row in range(5))), id="5 rows of 5 buttons"),
    pytest.param(rows([button(label="x" * 80)]), id="label 80"),
    pytest.param(rows([button(custom_id="x" * 100)]), id="custom_id 100"),
    pytest.param(rows([button(label=None, emoji={"name": "✅"})]), id="an emoji for a label"),
    pytest.param(
        rows([{"type": 2, "style": 5, "label": "Go", "url": "https://example.org"}]), id="a link"
    ),
    pytest.param({"nonce": "1" * 25}, id="nonce 25"),
    pytest.param(
        {"content": "", "flags": 1 << 15, "components": [TEXT] * 40}, id="40 new components"
    ),
]

WRONG = [
    pytest.param({"content": "x" * 2001}, ["content"], id="2001 characters"),
    pytest.param({"nonce": "1" * 26}, ["nonce"], id="nonce 26"),
    pytest.param(
        {"flags": 1 << 15, "components": [TEXT] * 41}, ["components"], id="41 new components"
    ),
    pytest.param({"embeds": [{"title": "x"}] * 11}, ["embeds"], id="11 embeds"),
    pytest.param(embed(title="x" * 257), ["embeds", "0", "title"], id="title 257"),
    pytest.param(embed(description="x" * 4097), ["embeds", "0", "description"], id="4097"),
    pytest.param(embed(footer={"text": "x" * 2049}), ["embeds", "0", "footer", "text"], id="2049"),
    pytest.param(embed(author={"name": "x" * 257}), ["embeds", "0", "author", "name"], id="257"),
    pytest.param(
        embed(fields=[{"name": "n", "value": "v"}] * 26), ["embeds", "0", "fields"], id="26 fields"
    ),
    pytest.param(
        embed(fields=[{"name": "x" * 257, "value": "v"}]),
        ["embeds", "0", "fields", "0", "name"],
        id="field name 257",
    ),
    pytest.param(
        embed(fields=[{"name": "n", "value": "x" * 1025}]),
        ["embeds", "0", "fields", "0", "value"],
        id="field value 1025",
    ),
    pytest.param(
        embed(fields=[{"name": "n", "value": " "}]),
        ["embeds", "0", "fields", "0", "value"],
        id="field without value",
    ),
    pytest.param(
        {"embeds": [{"description": "x" * 3000}, {"description": "x" * 3001}]},
        ["embeds"],
        id="6001 over all embeds",
    ),
    pytest.param(rows(*(buttons(1, row) for row in range(6))), ["components"], id="6 rows"),
    pytest.param(rows(buttons(6)), ["components", "0", "components"], id="6 buttons in a row"),
    pytest.param(rows([]), ["components", "0", "components"], id="an empty row"),
    pytest.param({"components": [button()]}, ["components", "0", "type"], id="no row"),
    pytest.param(
        rows([button(label="x" * 81)]), ["components", "0", "components", "0", "label"], id="81"
    ),
    pytest.param(
        rows([button(label="")]), ["components", "0", "components", "0", "label"], id="no label"
    ),
    pytest.param(
        rows([button(custom_id="x" * 101)]),
        ["components", "0", "components", "0", "custom_id"],
        id="custom_id 101",
    ),
    pytest.param(
        rows([button(custom_id="")]),
        ["components", "0", "components", "0", "custom_id"],
        id="custom_id empty",
    ),
    pytest.param(
        rows([button()], [button()]),
        ["components", "1", "components", "0", "custom_id"],
        id="custom_id twice",
    ),
    pytest.param(
        rows([button(style=5)]), ["components", "0", "components", "0", "url"], id="link to nowhere"
    ),
    pytest.param(
        {"message_reference": {"message_id": "1"}}, ["message_reference"], id="a reply to nothing"
    ),
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
