"""What Discord refuses is refused with the same status and code."""

from __future__ import annotations

from typing import Any

import pytest
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
