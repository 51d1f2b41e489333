"""`ollim-bot auth`: the login at Claude."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.framework import (
    Given,
    Verb,
    json_flag,
    no_flags,
    plain,
    print_json,
    run_verb,
)
from ollim_bot.cli.terminal import show
from ollim_bot.domain.provider import LoginStatus
from ollim_bot.errors import OllimError, SignInNeeded

_NOT_DONE = "You are not signed in: the login was not finished."
_STILL_IN = "You may still be signed in: the logout was not finished."
_SET_BY_HAND = "Take that out of the environment and `.env`, too."


def run(words: Sequence[str], caller: Caller) -> None:
    run_verb("auth", _VERBS, words, caller)


class Login(Protocol):
    """The login at Claude."""

    def status(self, environment: Mapping[str, str]) -> LoginStatus:
        """Raises `EngineError` if it is not known."""

    def log_in(self, environment: Mapping[str, str]) -> None:
        """Give the terminal to the login. Raises `OllimError` unless it succeeds."""


class ClaudeLogin:
    """Uses the program that is part of the SDK, or another `cli`."""

    def __init__(self, cli: Path | None = None) -> None:
        self._cli = cli

    def status(self, environment: Mapping[str, str]) -> LoginStatus:
        import asyncio

        from ollim_bot.engine.login import login_status

        return asyncio.run(login_status(environment, cli=self._cli))

    def log_in(self, environment: Mapping[str, str]) -> None:
        from ollim_bot.engine.login import log_in

        if not log_in(environment, cli=self._cli):
            print()  # the login program leaves the cursor behind its question
            raise OllimError(_NOT_DONE)


def _login(_: Given, caller: Caller) -> None:
    ClaudeLogin().log_in(caller.environ)
    show(plain(_asked(caller).sentence))


def _status(given: Given, caller: Caller) -> None:
    status = _asked(caller)
    if "json" in given:
        print_json(
            {
                "signed_in": status.is_logged_in,
                "method": status.method,
                "account": status.account,
                "plan": status.plan,
            }
        )
    if not status.is_logged_in:
        raise SignInNeeded(status.sentence)
    if "json" not in given:
        show(plain(status.sentence))


def _logout(_: Given, caller: Caller) -> None:
    from ollim_bot.engine.login import log_out

    if not log_out(caller.environ):
        raise OllimError(_STILL_IN)
    status = _asked(caller)
    if status.is_logged_in:
        show(plain(f"{status.sentence} {_SET_BY_HAND}"))


def _asked(caller: Caller) -> LoginStatus:
    return ClaudeLogin().status(caller.engine_environment())


_VERBS = {
    "login": Verb(
        "sign in, in the browser", "ollim-bot auth login", no_flags, _login, needs_words=False
    ),
    "status": Verb(
        "whether you are signed in, and how",
        "ollim-bot auth status",
        json_flag,
        _status,
        needs_words=False,
    ),
    "logout": Verb("sign out", "ollim-bot auth logout", no_flags, _logout, needs_words=False),
}
