"""`ollim-bot google`: the connection to Google Tasks, Calendar and Gmail."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, TextIO

from ollim_bot.features.google.google_client import GoogleClient
from ollim_bot.features.google.google_values import GoogleService
from ollim_bot.features.google.tokens import GoogleTokenStore
from ollim_bot.kernel.base.errors import SignInNeeded, Unreachable, WrongInput
from ollim_bot.kernel.base.plain_files import SizeLimit, read_file
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import JSON, Given, Noun, argument, plain, print_json
from ollim_bot.surfaces.terminal.printing import show
from ollim_bot.surfaces.terminal.terminal_data import open_data, writable

if TYPE_CHECKING:
    from ollim_bot.features.google.google_calendars import GoogleCalendars
    from ollim_bot.features.google.login import Connected, SignIn
    from ollim_bot.kernel.values.ports import TaskList
    from ollim_bot.kernel.values.runtime_config import RuntimeConfig
    from ollim_bot.surfaces.terminal.terminal_data import Data

_OPEN = """\
Open this address in a browser, and allow what you want to use:

  {address}

On another device the last page will not load. Copy the address of that page from the browser, and \
paste it here. There are 5 minutes for it."""
_NO_REDIRECT = (
    "That is not the address of Google's last page. Right: one that begins with http://127.0.0.1: "
    "and has state= and code= in it."
)
_LONGEST_WAIT = 1.0

_GOOGLE = Noun("google")
run = _GOOGLE.run


@_GOOGLE.verb(
    "connect it, in the browser",
    "--without mail",
    argument(
        "--without", metavar="WHAT", help="leave out some of tasks, calendar and mail, with commas"
    ),
)
def _login(given: Given, caller: Caller) -> None:
    from ollim_bot.features.google.login import TIMED_OUT, SignIn, SignInRefused

    without = given.get("without", "")
    left_out = {word.strip() for word in without.split(",") if word.strip()}
    unknown = sorted(left_out - set(GoogleService))
    if unknown:
        raise WrongInput(
            f"--without: there is no {unknown[0]!r}. Right: {', '.join(GoogleService)}."
        )
    services = tuple(each for each in GoogleService if each not in left_out)
    if not services:
        raise WrongInput("--without: nothing would be left to connect. Right: mail, for one.")
    data, addresses = open_data(caller), caller.google_addresses()
    now = _clock(caller)
    with writable(data):
        sign_in = SignIn(data.paths, _tokens(caller), addresses, now, services)
    with closing(sign_in):
        _say(_OPEN.format(address=sign_in.address))
        connected = _awaited(sign_in, now)
        if connected is None:
            raise SignInRefused(TIMED_OUT)
        _say(connected.sentence(now()))


def _awaited(sign_in: SignIn, now: Callable[[], datetime]) -> Connected | None:
    """The connection, by the browser or by a pasted address; None when the time is over."""
    pasted = _Paste()
    while (left := (sign_in.ends_at - now()).total_seconds()) > 0:
        watched = [sign_in.redirects.fileno(), *pasted.watched]
        ready, _, _ = select.select(watched, [], [], min(left, _LONGEST_WAIT))
        for source in ready:
            is_paste = source in pasted.watched
            for redirect in pasted.read() if is_paste else filter(None, [sign_in.knock()]):
                try:
                    return sign_in.take(redirect)
                except WrongInput as wrong:
                    _say(str(wrong), sys.stderr)
    return None


class _Paste:
    """Addresses pasted on standard input, read as they come."""

    def __init__(self) -> None:
        try:
            self.watched = [sys.stdin.fileno()]
        except (AttributeError, OSError, ValueError):
            self.watched = []
        self._rest = b""

    def read(self) -> Iterator[str]:
        """The redirect addresses that have come; other lines are told what is right."""
        from ollim_bot.kernel.values.pasted_addresses import AddressKind, pasted_addresses

        part = os.read(self.watched[0], 65536)
        if not part:
            self.watched = []
        *lines, self._rest = (self._rest + (part or b"\n")).split(b"\n")
        for line in filter(None, (line.decode("utf-8", "replace").strip() for line in lines)):
            pasted = pasted_addresses(line)
            if pasted is None or pasted.kind is not AddressKind.GOOGLE_REDIRECT:
                _say(_NO_REDIRECT, sys.stderr)
            else:
                yield pasted.addresses[0]


@_GOOGLE.verb("whether it is connected, and as whom", "", JSON)
def _status(given: Given, caller: Caller) -> None:
    from ollim_bot.features.google.login import Connected, checked

    tokens, trouble = _tokens(caller), ""
    token = tokens.read()
    try:
        connected = checked(tokens, caller.google_addresses())
    except SignInNeeded:
        if "json" in given:
            print_json(_as_json(None))
        raise
    except Unreachable as failed:
        if token is None:
            raise
        connected, trouble = Connected(token), str(failed)
    if "json" in given:
        print_json(_as_json(connected))
    else:
        _say(" ".join(filter(None, [connected.sentence(_clock(caller)()), trouble])))


def _as_json(connected: Connected | None) -> dict[str, object]:
    token = connected.token if connected else None
    return {
        "connected": token is not None,
        "account": token.account if token else "",
        "services": [each.value for each in token.services] if token else [],
        "ends_at": token.refresh_ends_at if token else None,
    }


@_GOOGLE.verb("disconnect it", "")
def _logout(_: Given, caller: Caller) -> None:
    from ollim_bot.features.google.login import disconnect

    data, addresses = open_data(caller), caller.google_addresses()
    if not data.paths.state.exists():
        show("Google was not connected.")
        return
    with writable(data):
        _say(disconnect(_tokens(caller), addresses))


def _say(text: str, stream: TextIO | None = None) -> None:
    show(plain(text), stream=stream)


def _tokens(caller: Caller) -> GoogleTokenStore:
    from ollim_bot.features.google.tokens import GoogleTokenStore

    return GoogleTokenStore(caller.place().paths, _clock(caller), caller.google_addresses())


def _clock(caller: Caller) -> Callable[[], datetime]:
    zone = caller.place().zone
    return lambda: caller.now().astimezone(zone)


def google_client(caller: Caller) -> GoogleClient:
    """A client that asks for a token only when it is used. Raises `BadSettings`."""
    return _client_and_tokens(caller)[0]


def google_tasks(caller: Caller, data: Data) -> TaskList | None:
    """The tasks at Google; None if the owner did not connect them."""
    from ollim_bot.features.google.google_tasks import DEFAULT_LIST, connected_tasks

    client, tokens = _client_and_tokens(caller)
    try:
        # The mirror is faster to open than the database, and to understand the whole configuration
        # takes longer than all the rest of the command.
        is_set = b"google_task_list" in read_file(data.paths.config, SizeLimit.STATE)
    except OSError:
        is_set = False
    list_id = _config(data).google_task_list if is_set else DEFAULT_LIST
    return connected_tasks(tokens, client, list_id)


def google_calendars(caller: Caller, data: Data) -> GoogleCalendars:
    from ollim_bot.features.google.google_calendars import GoogleCalendars

    client, tokens = _client_and_tokens(caller)
    ids = _config(data).google_calendars
    return GoogleCalendars(data.paths, tokens, client, caller.place().zone, ids)


def _client_and_tokens(caller: Caller) -> tuple[GoogleClient, GoogleTokenStore]:
    addresses = caller.google_addresses()
    tokens = GoogleTokenStore(caller.place().paths, caller.now, addresses)
    return GoogleClient(tokens, addresses.api), tokens


def _config(data: Data) -> RuntimeConfig:
    from ollim_bot.kernel.store.codecs.config_codec import RuntimeConfigCodec

    return data.stored(data.paths.config, RuntimeConfigCodec())
