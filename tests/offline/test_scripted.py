"""A scripted model gives the answers of its script and remembers what it was asked."""

from __future__ import annotations

import asyncio

import pytest
from devtools.scripted_model import ScriptedModel

from ollim_bot.offline.messages import Fail, Message, ModelRequest, Reply, Say

TITLE_FORMAT = {"type": "json_schema", "schema": {"properties": {"title": {"type": "string"}}}}
COMPACTION = "Your task is to create a detailed summary of the talk, in a <summary> block."
BUSY = Fail(529, "overloaded_error", "busy")


def ask(text: str = "hi", max_tokens: int = 100, **body: object) -> ModelRequest:
    message = Message("user", ({"type": "text", "text": text},))
    return ModelRequest("m", (message,), max_tokens=max_tokens, body=body)


def saying(text: str) -> Reply:
    return Reply((Say(text),))


def test_the_queue_comes_in_order_and_then_the_default() -> None:
    model = ScriptedModel("that is all").answers("one", "two").then(BUSY)
    assert [model.reply(ask()) for _ in range(5)] == [
        saying("one"),
        saying("two"),
        BUSY,
        saying("that is all"),
        saying("that is all"),
    ]


def test_a_rule_comes_before_the_queue_and_uses_up_nothing_of_it() -> None:
    model = ScriptedModel().answers("one").when("mail", saying("no mail"))
    answers = [model.reply(ask(text)) for text in ("any mail?", "hi", "mail")]
    assert answers == [saying("no mail"), saying("one"), saying("no mail")]


def test_the_newest_rule_that_fits_wins() -> None:
    model = ScriptedModel().when("mail", saying("old")).when("mail", saying("new"))
    model.when(lambda request: request.model == "other", BUSY)
    assert model.reply(ask("mail")) == saying("new")


@pytest.mark.parametrize(
    "aside",
    [
        pytest.param(ask("quota", max_tokens=1), id="probe"),
        pytest.param(ask("Name it", output_config={"format": TITLE_FORMAT}), id="title"),
        pytest.param(
            ModelRequest("m", (Message("user", ()),), tools=("web_search",)), id="web-search"
        ),
    ],
)
def test_side_requests_are_kept_apart_and_use_up_nothing(aside: ModelRequest) -> None:
    model = ScriptedModel().answers("one").when(lambda _: True, saying("two"))
    assert isinstance(model.reply(aside), Reply)
    assert model.requests == []
    assert model.side_requests == [aside]


def test_a_compaction_gets_a_summary_and_leaves_the_queue_alone() -> None:
    model = ScriptedModel().answers("one")
    summary = model.reply(ask(COMPACTION))
    assert isinstance(summary, Reply)
    assert "<summary>" in str(summary.parts)
    assert model.requests == [ask(COMPACTION)]
    assert model.reply(ask()) == saying("one")


def test_a_rule_may_answer_a_compaction() -> None:
    assert ScriptedModel().when("detailed summary", BUSY).reply(ask(COMPACTION)) == BUSY


async def test_a_test_can_wait_for_a_request() -> None:
    model = ScriptedModel()
    waiting = asyncio.create_task(model.seen(2))
    for text in ("one", "two", "three"):
        await asyncio.sleep(0)
        model.reply(ask(text))
    assert await waiting == ask("two")
    assert await model.seen(1) == ask("one")


async def test_waiting_for_a_request_that_never_comes_ends() -> None:
    with pytest.raises(TimeoutError):
        await ScriptedModel().seen(1, 0.01)
