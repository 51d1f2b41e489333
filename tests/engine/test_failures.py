"""Whatever goes wrong at the provider ends the turn in a sentence, and the next turn works."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest
from claude_agent_sdk import ResultMessage
from tests.engine.scene import Scene, ask, end_of, engine_at, spoken, texts

from ollim_bot.domain.events import (
    EndCause,
    FailureKind,
    Retrying,
    TextStreamed,
    TextWithdrawn,
    TurnEnded,
)
from ollim_bot.domain.provider import CLAUDE, OFFLINE, ModelAccess, Provider, ProviderKind
from ollim_bot.engine.failures import SENTENCES, failure_of
from ollim_bot.offline.messages import Cut, Fail, Hang, Reply, Say
from ollim_bot.ports import AgentSession, SessionSpec, Toolset

OWN_SERVER = Provider(ProviderKind.CLAUDE, "my-server", access=ModelAccess.OWN_SERVER)
CREDIT = "Your credit balance is too low to access the Anthropic API."


# What the provider answers to a prompt, and what the failure is then.
REFUSALS = {
    "key": (Fail(401, "authentication_error", "bad key"), FailureKind.LOGIN),
    "permission": (Fail(403, "permission_error", "no"), FailureKind.LOGIN),
    "credit": (Fail(400, "invalid_request_error", CREDIT), FailureKind.BILLING),
    "model": (Fail(404, "not_found_error", "?"), FailureKind.MODEL_UNKNOWN),
    "limit": (Fail(429, "rate_limit_error", "slow"), FailureKind.LIMIT),
    "fault": (Fail(500, "api_error", "oh"), FailureKind.OVERLOADED),
    "overload": (Fail(529, "overloaded_error", "full"), FailureKind.OVERLOADED),
    "other": (Fail(400, "invalid_request_error", "odd"), FailureKind.OTHER),
}
TOO_LONG = Fail(400, "invalid_request_error", "prompt is too long: 9 tokens > 5 maximum")
DECLINED = Reply((Say("I"),), stop_reason="refusal")


async def fails_and_goes_on(
    stage: Scene, session: AgentSession, prompt: str, answer: Fail | Reply, kind: FailureKind
) -> None:
    stage.model.when(lambda request: spoken(request)[-1:] != ["again"], answer)
    failed = await end_of(session, prompt)
    assert failed.cause is EndCause.FAILED
    assert failed.failure is not None
    assert failed.failure.kind is kind
    assert failed.failure.sentence.endswith((".", "odd"))
    assert texts(await ask(session, "again")) == ["ok"]


async def test_a_failed_turn_says_what_to_do_and_the_next_one_works(stage: Scene) -> None:
    async with stage.session() as session:
        for prompt, (answer, kind) in REFUSALS.items():
            await fails_and_goes_on(stage, session, prompt, answer, kind)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(TOO_LONG, FailureKind.TOO_LONG), (DECLINED, FailureKind.REFUSED)],
    ids=["too long", "declined"],
)
async def test_a_prompt_that_cannot_be_answered_is_told_and_the_next_one_works(
    stage: Scene, answer: Fail | Reply, kind: FailureKind
) -> None:
    async with stage.session() as session:
        await fails_and_goes_on(stage, session, "now", answer, kind)


async def test_nobody_at_the_address_is_unreachable(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        engine = engine_at(tmp_path, url, asks=OWN_SERVER)
        async with engine.open(SessionSpec("", tmp_path), Toolset()) as session:
            failed = await end_of(session, "hello")

    assert failed.failure is not None
    assert failed.failure.kind is FailureKind.UNREACHABLE
    assert failed.failure.sentence.startswith("my-server could not be reached. ")
    assert "`ANTHROPIC_BASE_URL`" in failed.failure.sentence


async def test_a_provider_on_this_machine_is_reached_though_there_is_a_proxy(
    stage: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "example.org")
    monkeypatch.delenv("no_proxy", raising=False)
    async with stage.session() as session:
        assert texts(await ask(session, "hello")) == ["ok"]


async def test_a_provider_that_hangs_is_unreachable(stage: Scene) -> None:
    stage.model.when("hello", Hang())
    impatient = engine_at(stage.home, stage.url, {"API_TIMEOUT_MS": "500"})
    async with impatient.open(stage.spec, Toolset()) as session:
        events = await ask(session, "hello")

    assert any(isinstance(event, Retrying) for event in events)
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].failure is not None
    assert events[-1].failure.kind is FailureKind.UNREACHABLE


async def test_a_torn_answer_is_withdrawn_and_given_again(stage: Scene) -> None:
    torn = Reply((Say("The first half is here"),), pace=0.02, chunk=4)
    stage.model.then(Cut(torn)).answers("The whole answer.")
    async with stage.session() as session:
        events = await ask(session, "tell me")

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
