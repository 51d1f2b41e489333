"""`ollim-bot push`: reminders on your phone."""

from __future__ import annotations

import sys
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

from ollim_bot.features.phone.push_file import PushFile
from ollim_bot.kernel.base.errors import OllimError, WrongInput
from ollim_bot.kernel.base.moments import describe, duration_in_words
from ollim_bot.kernel.base.settings import ntfy_account
from ollim_bot.kernel.values.surface_state import PushState
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import JSON, Given, Noun, argument, plain, print_json
from ollim_bot.surfaces.terminal.printing import show
from ollim_bot.surfaces.terminal.terminal_data import Data, open_data, writable

if TYPE_CHECKING:
    from ollim_bot.kernel.base.settings import NtfyAccount
    from ollim_bot.kernel.values.push import Pairing
    from ollim_bot.kernel.values.runtime_config import RuntimeConfig
    from ollim_bot.surfaces.terminal.interview import Console

_NO_TERMINAL = (
    "`ollim-bot push setup` asks questions and waits for your phone, and this is no terminal. Run "
    "it in one."
)
_NOT_PAIRED = "No phone is paired. `ollim-bot push setup` pairs one."
_SENT = "A message with a button is on its way. Press the button on your phone."
_NO_PRESS = (
    "No press came within 10 minutes. The server has the message; look whether the app shows the "
    "topic, or pair the phone anew: `ollim-bot push setup --new`."
)
_REMOVED = "No phone is paired any more. The topics are forgotten here."
_TOLD = "The phone was told. Unsubscribe from the topic in the app: hold it, then delete it."
_UNTOLD = (
    "The phone could not be told, since the server does not answer. Unsubscribe from the topic in "
    "the app: hold it, then delete it."
)
_KEPT = "{server} keeps the last messages for 12 hours, unless it is set otherwise."
_TOKENS = "Its tokens stay in `.env`, for the next time: take out {names} if you do not want them."

_PUSH = Noun("push")
run = _PUSH.run


@_PUSH.verb(
    "pair your phone, by a code and a pressed button",
    "--server https://ntfy.example.org",
    argument("--server", metavar="URL", help="the server to use, in place of the question"),
    argument("--new", action="store_true", help="new topics, so that earlier phones get nothing"),
)
def _setup(given: Given, caller: Caller) -> None:
    from ollim_bot.surfaces.terminal.interview import TerminalConsole

    set_up_phone(given, caller, TerminalConsole(), is_terminal=sys.stdin.isatty())


def set_up_phone(given: Given, caller: Caller, console: Console, *, is_terminal: bool) -> None:
    """Raises `OllimError` if no phone is paired then, unless the person did not want to."""
    if not is_terminal:
        raise WrongInput(_NO_TERMINAL)
    from ollim_bot.features.phone.push_setup import ask_for_phone
    from ollim_bot.surfaces.terminal.interview import Installation, Interview

    at = Interview(console, Installation(caller), indent="")
    if not ask_for_phone(at, given.get("server", ""), is_new="new" in given):
        at.say("Nothing was changed.")


@_PUSH.verb("whether a phone is paired, and what rings there", "", JSON)
def _status(given: Given, caller: Caller) -> None:
    data = open_data(caller)
    pairing = PushFile(data.paths).read()
    account = _account(caller)
    config, state = _config(data), data.read(lambda tx: tx.push.get()) or PushState()
    if "json" in given:
        zone = data.now.tzinfo
        last = state.last_press.astimezone(zone) if state.last_press else None
        print_json(
            {
                "paired": pairing is not None,
                "server": pairing.server if pairing else "",
                "paired_at": pairing.paired_at.astimezone(zone) if pairing else None,
                "last_press": last,
                "sent_today": state.sent_on(data.now),
                "ignored_replies": state.wrong + state.dropped,
                "push_what": config.push_what,
                "push_content": config.push_content,
            }
        )
    elif pairing is None:
        show(_NOT_PAIRED)
    else:
        show(plain(f"Paired with {pairing.server} since {describe(pairing.paired_at, data.now)}."))
        if state.last_press is not None:
            show(f"A button was last pressed {describe(state.last_press, data.now)}.")
        show(f"Sent today: {state.sent_on(data.now)}. What rings: {config.push_what}.")
        show(f"What leaves this machine: {config.push_content}.")
        if account.url is not None and account.url != pairing.server:
            show(plain(OTHER_SERVER.format(server=pairing.server, url=account.url)))


OTHER_SERVER = (
    "Your phone is paired with {server}, but NTFY_URL is {url}, so no token is sent. "
    "`ollim-bot push setup` pairs it anew."
)


@_PUSH.verb("send a test with a button, and wait for its press", "")
def _test(_: Given, caller: Caller) -> None:
    from ollim_bot.features.phone.pairing import PairingAttempt, account_for
    from ollim_bot.features.phone.push_setup import waiting_line

    data = open_data(caller)
    pairing = _paired(data)
    account = account_for(pairing.server, _account(caller))
    test = PairingAttempt(account, caller.now, (pairing.topic, pairing.reply_topic))
    test.send_test()
    sent_at = caller.now()
    show(_SENT)
    with waiting_line() as on_wait:
        pressed = test.wait_for_press(Event(), on_wait)
    if pressed is None:
        raise OllimError(_NO_PRESS)
    pressed_at = pressed.paired_at
    with writable(data) as open_directory:
        note_press = partial(PushState.having_read, reply="", pressed=pressed_at)
        open_directory.rows.run(lambda tx: tx.push.change(note_press))
    show(f"The press came after {duration_in_words(pressed_at - sent_at)}: your phone works.")


@_PUSH.verb("forget your phone", "")
def _remove(_: Given, caller: Caller) -> None:
    from ollim_bot.features.phone.pairing import unpair

    data = open_data(caller)
    pairing, account = _paired(data), _account(caller)
    with writable(data) as open_directory:
        is_told = unpair(pairing, account, PushFile(data.paths), open_directory.rows)
    show(_REMOVED)
    show(_TOLD if is_told else _UNTOLD)
    show(plain(_KEPT.format(server=pairing.server)))
    tokens = {"NTFY_TOKEN": account.token, "NTFY_REPLY_TOKEN": account.reply_token}
    if names := [name for name, token in tokens.items() if token is not None]:
        show(_TOKENS.format(names=" and ".join(["NTFY_URL", *names])))


def _paired(data: Data) -> Pairing:
    pairing = PushFile(data.paths).read()
    if pairing is None:
        raise OllimError(_NOT_PAIRED)
    return pairing


def _account(caller: Caller) -> NtfyAccount:
    return ntfy_account(caller.environ, cwd=caller.path("."))


def _config(data: Data) -> RuntimeConfig:
    from ollim_bot.kernel.values.runtime_config import RuntimeConfig

    return data.read(lambda tx: tx.config.get()) or RuntimeConfig()
