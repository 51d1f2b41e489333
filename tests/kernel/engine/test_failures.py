"""Each failure of the provider ends the turn with a sentence, and the next turn works."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from claude_agent_sdk import ResultMessage
from tests.kernel.engine.scene import ask, end_of, engine_at, spoken, texts
from tests.kernel.engine.scene import scene as open_scene
from tests.kernel.engine.shared import SharedSession, in_shared_loop

from ollim_bot.kernel.engine.stream import SENTENCES, failure_of
from ollim_bot.kernel.values.events import (
    EndCause,
    FailureKind,
    Retrying,
    TextStreamed,
    TextWithdrawn,
    TurnEnded,
)
from ollim_bot.kernel.values.ports import Toolset
from ollim_bot.kernel.values.provider import CLAUDE, OFFLINE, ModelAccess, Provider, ProviderKind
from ollim_bot.offline.server import Cut, Fail, Hang, Reply, Say

OWN_SERVER = Provider(ProviderKind.CLAUDE, "my-server", access=ModelAccess.OWN_SERVER)
CREDIT = "Your credit balance is too low to access the Anthropic API."


# The provider's response to a prompt, and the resulting failure.
TOO_LONG = "prompt is too long: 9 tokens > 5 maximum"
REFUSALS: Mapping[str, tuple[Fail | Reply, FailureKind]] = {
    "key": (Fail(401, "authentication_error", "bad key"), FailureKind.LOGIN),
    "permission": (Fail(403, "permission_error", "no"), FailureKind.LOGIN),
    "credit": (Fail(400, "invalid_request_error", CREDIT), FailureKind.BILLING),
    "model": (Fail(404, "not_found_error", "?"), FailureKind.MODEL_UNKNOWN),
    "limit": (Fail(429, "rate_limit_error", "slow"), FailureKind.LIMIT),
    "fault": (Fail(500, "api_error", "oh"), FailureKind.OVERLOADED),
    "overload": (Fail(529, "overloaded_error", "full"), FailureKind.OVERLOADED),
    "other": (Fail(400, "invalid_request_error", "odd"), FailureKind.OTHER),
    "declined": (Reply((Say("I"),), stop_reason="refusal"), FailureKind.REFUSED),
    "too long": (Fail(400, "invalid_request_error", TOO_LONG), FailureKind.TOO_LONG),
}


@in_shared_loop
async def test_a_failed_turn_says_what_to_do_and_the_next_one_works(shared: SharedSession) -> None:
    async with shared.limited() as session:
        for prompt, (answer, kind) in REFUSALS.items():
            shared.model.when(lambda request: spoken(request)[-1:] != ["again"], answer)
            failed = await end_of(session, prompt)
            assert failed.cause is EndCause.FAILED, prompt
            assert failed.failure is not None
            assert failed.failure.kind is kind, prompt
            assert failed.failure.sentence.endswith((".", "odd")), prompt
        assert texts(await ask(session, "again")) == ["ok"]


@pytest.mark.real_process
async def test_a_provider_that_hangs_or_is_gone_is_unreachable(tmp_path: Path) -> None:
    async with AsyncExitStack() as provider:
        scene = await provider.enter_async_context(open_scene(tmp_path))
        scene.model.when("hello", Hang())
        impatient = engine_at(tmp_path, scene.url, {"API_TIMEOUT_MS": "500"}, asks=OWN_SERVER)
        async with impatient.open(scene.spec, Toolset()) as session:
            events = await ask(session, "hello")
            await provider.aclose()
            gone = await end_of(session, "hello")

    assert any(isinstance(event, Retrying) for event in events)
    for end in (events[-1], gone):
        assert isinstance(end, TurnEnded)
        assert end.failure is not None
        assert end.failure.kind is FailureKind.UNREACHABLE
        assert end.failure.sentence.startswith("my-server could not be reached. ")
        assert "`ANTHROPIC_BASE_URL`" in end.failure.sentence


@in_shared_loop
async def test_a_torn_answer_is_withdrawn_and_given_again(shared: SharedSession) -> None:
    torn = Reply((Say("The first half is here"),), pace=0.02, chunk=4)
    shared.model.then(Cut(torn)).answers("The whole answer.")
    events = await shared.ask("tell me")

    kinds = [type(event) for event in events]
    assert kinds.index(TextStreamed) < kinds.index(TextWithdrawn)
    assert texts(events) == ["The whole answer."]
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].cause is EndCause.COMPLETED


def test_there_is_a_sentence_for_every_kind() -> None:
    assert set(SENTENCES) == set(FailureKind)


@pytest.mark.parametrize(
    "error", ["authentication_failed", "billing_error", "server_error", "model_not_found"]
)
@pytest.mark.parametrize(
    ("provider", "must_not_be_named"),
    [
        (OWN_SERVER, ("Claude", "auth login")),
        (replace(CLAUDE, access=ModelAccess.KEY), ("auth login",)),
        (CLAUDE, ("ANTHROPIC_",)),
    ],
)
def test_a_failure_sends_the_owner_to_where_it_is(
    provider: Provider, must_not_be_named: tuple[str, ...], error: str
) -> None:
    result = ResultMessage("error", 1, 1, is_error=True, num_turns=1, session_id="s")
    sentence = failure_of(result, error, provider).sentence
    assert not [each for each in must_not_be_named if each in sentence]
    assert "{" not in sentence


def test_a_refused_key_is_told_with_the_setting_that_has_it() -> None:
    result = ResultMessage("error", 1, 1, is_error=True, num_turns=1, session_id="s")
    for provider in (OWN_SERVER, replace(CLAUDE, access=ModelAccess.KEY)):
        for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
            told = failure_of(result, "authentication_failed", replace(provider, key_name=name))
            assert f"`{name}`" in told.sentence
            assert "OLLIM_MODEL=offline" in told.sentence


def test_the_offline_model_is_not_taken_for_claude() -> None:
    result = ResultMessage("error", 1, 1, is_error=True, num_turns=1, session_id="s")
    assert "Claude" not in failure_of(result, "server_error", OFFLINE).sentence
