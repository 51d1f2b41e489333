"""Classifies the failures of a turn, and words them for the owner."""

from __future__ import annotations

from collections.abc import Mapping

from claude_agent_sdk import ResultMessage

from ollim_bot.domain.events import FailureKind, TurnFailure
from ollim_bot.domain.provider import ModelAccess, Provider
from ollim_bot.domain.text import shortened

_LONGEST_DETAIL = 200

SENTENCES: Mapping[FailureKind, str] = {
    FailureKind.LOGIN: (
        "Claude refused the login of your account. Run `ollim-bot auth login`; then it goes on by "
        "itself. With `OLLIM_MODEL=offline` the built-in model answers."
    ),
    FailureKind.BILLING: "The Claude account has no credit left. Add some, then try again.",
    FailureKind.OVERLOADED: "Claude is overloaded. Try again in a few minutes.",
    FailureKind.UNREACHABLE: "Claude could not be reached. Check the connection, then try again.",
    FailureKind.MODEL_UNKNOWN: (
        "This account cannot use the chosen model. Choose another one with `/model`."
    ),
    FailureKind.TOO_LONG: (
        "The conversation is too long for the model. Make room with `/compact`, or begin anew "
        "with `/clear`."
    ),
    FailureKind.REFUSED: "The model declined to answer this. Say it in other words.",
    FailureKind.LIMIT: "The usage limit is reached. Try again later.",
    FailureKind.ENGINE_DIED: "The engine stopped before the answer was complete. Send it again.",
    FailureKind.SESSION_LOST: "The earlier conversation could not be found. Begin a new one.",
    FailureKind.OTHER: "The answer failed. Try again.",
}

_BY_ACCESS: Mapping[tuple[ModelAccess, FailureKind], str] = {
    (ModelAccess.KEY, FailureKind.LOGIN): (
        "Claude refused the login with the key in `{key}`. Set one that is valid, then start the "
        "bot again. With `OLLIM_MODEL=offline` the built-in model answers."
    ),
    (ModelAccess.OWN_SERVER, FailureKind.LOGIN): (
        "{name} refused the login. Look at `{key}` and `ANTHROPIC_BASE_URL`, then start the bot "
        "again. With `OLLIM_MODEL=offline` the built-in model answers."
    ),
    (ModelAccess.OWN_SERVER, FailureKind.BILLING): (
        "{name} says that the account has no credit left. Add some, then try again."
    ),
    (ModelAccess.OWN_SERVER, FailureKind.OVERLOADED): (
        "{name} is overloaded. Try again in a few minutes."
    ),
    (ModelAccess.OWN_SERVER, FailureKind.UNREACHABLE): (
        "{name} could not be reached. See whether it runs and `ANTHROPIC_BASE_URL` is right, then "
        "try again."
    ),
    (ModelAccess.OWN_SERVER, FailureKind.MODEL_UNKNOWN): (
        "{name} cannot use the chosen model. Choose another one with `/model`."
    ),
    (ModelAccess.BUILT_IN, FailureKind.OVERLOADED): (
        "The offline model could not answer. Try again, or use `/restart`."
    ),
    (ModelAccess.BUILT_IN, FailureKind.UNREACHABLE): (
        "The offline model could not be reached. Try again, or use `/restart`."
    ),
}

TAKEN_BEFORE = TurnFailure(
    FailureKind.OTHER, "This was asked before, so it was not asked again. Say it in other words."
)

_BY_TERMINAL_REASON = {
    "prompt_too_long": FailureKind.TOO_LONG,
    "blocking_limit": FailureKind.TOO_LONG,
    "max_turns": FailureKind.LIMIT,
    "budget_exhausted": FailureKind.LIMIT,
}
_BY_ERROR = {
    "authentication_failed": FailureKind.LOGIN,
    "billing_error": FailureKind.BILLING,
    "rate_limit": FailureKind.LIMIT,
    "overloaded": FailureKind.OVERLOADED,
    "model_not_found": FailureKind.MODEL_UNKNOWN,
}


def failure(kind: FailureKind) -> TurnFailure:
    return TurnFailure(kind, SENTENCES[kind])


def failure_of(result: ResultMessage, error: str | None, provider: Provider) -> TurnFailure:
    """`error` is the failure code in the last message of the turn, if it had one."""
    kind = _kind(result, error)
    if kind is FailureKind.OTHER and (detail := _detail(result)):
        return TurnFailure(kind, f"The answer failed: {detail}")
    told = _BY_ACCESS.get((provider.access, kind), SENTENCES[kind])
    return TurnFailure(kind, told.format(name=provider.name, key=provider.key_name))


def _kind(result: ResultMessage, error: str | None) -> FailureKind:
    if result.stop_reason == "refusal":
        return FailureKind.REFUSED
    if error == "server_error":
        return FailureKind.OVERLOADED if result.api_error_status else FailureKind.UNREACHABLE
    by_reason = _BY_TERMINAL_REASON.get(result.terminal_reason or "")
    return by_reason or _BY_ERROR.get(error or "", FailureKind.OTHER)


def _detail(result: ResultMessage) -> str:
    lines = "\n".join([result.result or "", *(result.errors or [])]).split("\n")
    first = next((line.strip() for line in lines if line.strip()), "")
    return shortened(first, _LONGEST_DETAIL)
