"""Whether the page is there, or can be."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

from ollim_bot.domain.moments import duration_in_words
from ollim_bot.upkeep.checks.wire import Ask
from ollim_bot.upkeep.findings import Finding, failed, passed, warned

NAME = "page"
_HOST = "127.0.0.1"
_OURS = "ollim-bot"
_STANDING_STILL = 120.0

_OFF = "off"
_NOWHERE = "the page is off, and so is Discord: nobody can talk to the bot"
_TURN_ON = "Set OLLIM_WEB_PORT to a port, such as 8421, and restart the bot."
_OTHER_PORT = "Stop that one, or set OLLIM_WEB_PORT to another port."
_RESTART = "Restart the bot; nothing is lost."
_LOOK = "Look into the log of the bot, then restart it."


def page(
    port: int | None,
    ask: Ask,
    *,
    is_running: bool,
    has_discord: bool,
    refusal: Callable[[int], str] | None = None,
) -> Iterator[Finding]:
    """`is_running` tells of the bot of this data directory; `refusal` is `why_not_free`."""
    if port is None:
        yield passed(NAME, _OFF) if has_discord else failed(NAME, _NOWHERE, _TURN_ON)
        return
    try:
        answer = ask(f"http://{_HOST}:{port}/healthz", {})
    except OSError as silent:
        is_late = is_running and isinstance(silent, TimeoutError)
        if is_late or isinstance(silent, ConnectionRefusedError):
            yield _silent(port, refusal or why_not_free, is_running=is_running)
        else:
            yield _taken(port, "another program")
        return
    if answer.server != _OURS or not isinstance(answer.said, dict):
        yield _taken(port, "another program")
    elif not is_running:
        yield _taken(port, "another ollim-bot")
    else:
        yield _answering(port, answer.said)


def why_not_free(port: int) -> str:
    """Why nobody could listen at that port; empty if somebody could."""
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((_HOST, port))
        except OSError as refused:
            return refused.strerror or str(refused)
    return ""


def _silent(port: int, refusal: Callable[[int], str], *, is_running: bool) -> Finding:
    if is_running:
        return failed(NAME, f"the bot runs, but nothing answers at port {port}", _LOOK)
    if reason := refusal(port):
        return failed(NAME, f"port {port} cannot be used: {reason}", _TURN_ON)
    return passed(NAME, f"port {port} is free")


def _taken(port: int, holder: str) -> Finding:
    return failed(NAME, f"{holder} has port {port}", _OTHER_PORT)


def _answering(port: int, health: Mapping[str, object]) -> Finding:
    age = health.get("heartbeat_age")
    if isinstance(age, int | float) and age > _STANDING_STILL:
        since = duration_in_words(timedelta(seconds=age))
        return warned(NAME, f"it answers, but the schedule stands still since {since}", _RESTART)
    return passed(NAME, f"the bot answers at port {port}")
