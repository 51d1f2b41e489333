"""`ollim-bot auth`: the login at Claude."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from ollim_bot.kernel.base.errors import OllimError, SignInNeeded
from ollim_bot.kernel.values.provider import LoginStatus
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import JSON, Given, Noun, plain, print_json
from ollim_bot.surfaces.terminal.printing import show

_NOT_DONE = "You are not signed in: the login was not finished."
_STILL_IN = "You may still be signed in: the logout was not finished."
_SET_BY_HAND = "Take that out of the environment and `.env`, too."

_AUTH = Noun("auth")
run = _AUTH.run


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

        from ollim_bot.kernel.engine.launcher import login_status

        return asyncio.run(login_status(environment, cli=self._cli))

    def log_in(self, environment: Mapping[str, str]) -> None:
        from ollim_bot.kernel.engine.launcher import log_in

        if not log_in(environment, cli=self._cli):
            print()  # the login program leaves the cursor behind its question
            raise OllimError(_NOT_DONE)


@_AUTH.verb("sign in, in the browser", "")
def _login(_: Given, caller: Caller) -> None:
    ClaudeLogin().log_in(caller.environ)
    show(plain(_asked(caller).sentence))


@_AUTH.verb("whether you are signed in, and how", "", JSON)
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


@_AUTH.verb("sign out", "")
def _logout(_: Given, caller: Caller) -> None:
    from ollim_bot.kernel.engine.launcher import log_out

    if not log_out(caller.environ):
        raise OllimError(_STILL_IN)
    status = _asked(caller)
    if status.is_logged_in:
        show(plain(f"{status.sentence} {_SET_BY_HAND}"))


def _asked(caller: Caller) -> LoginStatus:
    return ClaudeLogin().status(caller.engine_environment())
