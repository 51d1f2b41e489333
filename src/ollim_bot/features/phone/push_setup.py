"""The questions that pair a phone, in `ollim-bot push setup` and in `ollim-bot setup`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from itertools import zip_longest
from math import ceil
from threading import Event
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ollim_bot.features.phone.pairing import (
    OF_IPHONES,
    PUBLIC_SERVER,
    TOPIC_IS_A_KEY,
    WHAT_IS_SENT,
    PairingAttempt,
    ReplyTokenNeeded,
    TokenNeeded,
    account_for,
    keep,
    say_goodbye,
    server_address,
)
from ollim_bot.features.phone.push_file import PushFile
from ollim_bot.kernel.base.errors import OllimError, Unreadable, WrongInput
from ollim_bot.kernel.base.settings import NtfyAccount, Secret, problem_with
from ollim_bot.kernel.values.runtime_config import PushContent
from ollim_bot.surfaces.terminal.printing import width_of

if TYPE_CHECKING:
    from ollim_bot.kernel.upkeep.env_file import EnvChanges
    from ollim_bot.kernel.values.push import Pairing
    from ollim_bot.surfaces.terminal.interview import Interview

URL, TOKEN, REPLY_TOKEN = "NTFY_URL", "NTFY_TOKEN", "NTFY_REPLY_TOKEN"

_WAYS = f"""\
What waits for you reaches your phone through the app ntfy, by a server between the bot and the app.
1  a server of your own
2  the public server {PUBLIC_SERVER}, which needs no account"""
_WHICH = "1 or 2 (Enter: not now)"
_WHICH_OR_KEEP = "1 or 2 (Enter: {present})"
_ADDRESS = "Its address, such as https://ntfy.example.org (Enter: not now)"
_NOT_A_WAY = "That is not one of the two. Give its number or an address, or press Enter."
_FIXED = (
    "NTFY_URL is set in {place} and counts before what you give here. Change it there, or leave "
    "--server out."
)

_LEAVES = "What leaves this machine: {sent}, to {host}. {readers}"
_OWN = "Who runs {host} can read it."
_PUBLIC = (
    "The people who run it can read it, and it is kept there for 12 hours. On the way it passes "
    "Google, or Apple with an iPhone."
)
_LESS = "`ollim-bot config set push_content title` sends less, `none` only that there is a message."
_GO_ON = "Go on?"

_STRONGER = "{name} is set in {place}: change it there."
_GOOD = "The server takes messages, replaces them and keeps them."
_TAKEN_OUT = "This takes {names} out of `.env`: they are for another server."

_BOTH = """\
Discord reaches you too. Which of the two shall ring?
1  Discord for everything, the phone only for what must come
2  both, for what waits for your answer"""
_RINGS = {"1": "must", "2": "asks"}
_WHICH_RINGS = "1 or 2 (Enter: 1)"

_FOLLOW = """\
Install the app ntfy on your phone: from Google Play, F-Droid or the App Store.
Android: scan this with the camera. It opens the app."""
_TOO_NARROW = "This terminal is too narrow to show the code: type the names in the app."
_BY_HAND = """\
iPhone, or without a camera: press + in the app and type this.
  server  {server}
  topic   {topic}"""
_ACCOUNT = "The server wants an account: in the app, Settings, Manage users has to have one first."
_FOLLOWED = "Enter once the app shows the topic"
_ON_ITS_WAY = "A message with a button is on its way. Press the button on your phone."
WAITING = "Waiting for the press: {left} left."
_NO_PRESS = (
    "No press came within 10 minutes, so nothing is paired and nothing is kept. Look whether the "
    "app shows the topic, then run `ollim-bot push setup` again."
)
_NOTHING_KEPT = "Stopped. Nothing is paired, and nothing is kept."
_PAIRED = "Your phone is paired. It counts at once. `ollim-bot push test` tries it again any time."
_ANOTHER = "A phone is paired with {server} already. This adds another one to the same topics."
_OLD = "The old topic is no longer used, and the phone was told so: unsubscribe from it in the app."
_OLD_UNTOLD = "The old topic is no longer used: unsubscribe from it in the app."

_MARKS = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}
# Black on white, in a terminal of any colour.
_COLOURS, _RESET = "\033[38;5;16;48;5;231m", "\033[0m"


def ask_for_phone(at: Interview, server: str = "", *, is_new: bool = False) -> bool:
    """Ask and pair; returns whether a phone is paired now. Nothing is kept before its press.

    Raises `OllimError` with the reason if it does not work.
    """
    known, topics = None, None
    with suppress(Unreadable):
        known = PushFile(at.of.paths).read()
    chosen = _given_server(at, server) if server else _asked_server(at, known)
    if not chosen:
        return False
    if known is not None and known.server == chosen and not is_new:
        at.say(_ANOTHER.format(server=chosen))
        topics = (known.topic, known.reply_topic)
    content, host = PushContent(at.of.config.push_content), urlsplit(chosen).netloc
    readers = _PUBLIC if chosen == PUBLIC_SERVER else _OWN.format(host=host)
    at.say(_LEAVES.format(sent=WHAT_IS_SENT[content], host=host, readers=readers))
    if content is PushContent.FULL:
        at.say(_LESS)
    at.say(f"{TOPIC_IS_A_KEY}\n{OF_IPHONES}")
    if not at.agrees(_GO_ON):
        return False
    try:
        return _pair(at, chosen, topics, known)
    except (KeyboardInterrupt, EOFError):
        at.say(f"\n{_NOTHING_KEPT}")
        raise KeyboardInterrupt from None


def _pair(
    at: Interview, server: str, topics: tuple[str, str] | None, known: Pairing | None
) -> bool:
    before = at.of.settings.ntfy
    checked = _check(at, account_for(server, before), topics)
    if checked is None:
        return False
    attempt, account = checked
    changes = _env_changes(at, account)
    what = _asked_what(at) if at.of.settings.discord_token is not None else ""
    has_account = account.token is not None
    at.say(_FOLLOW)
    environ = at.of.caller.environ
    has_colours = sys.stdout.isatty() and environ.get("TERM", "dumb") != "dumb"
    rows, width = attempt.code(), width_of(sys.stdout)
    if width is not None and len(rows) + len(at.indent) > width:
        at.say(_TOO_NARROW)
    else:
        for line in code_lines(rows, has_colours=has_colours):
            print(f"{at.indent}{line}")
    at.say(_BY_HAND.format(server=attempt.server, topic=attempt.topic))
    if has_account:
        at.say(_ACCOUNT)
    at.ask(_FOLLOWED)
    attempt.send_test()
    at.say(_ON_ITS_WAY)
    with waiting_line() as on_wait:
        pairing = attempt.wait_for_press(Event(), on_wait)
    if pairing is None:
        raise OllimError(_NO_PRESS)
    needs_restart = at.of.needs_restart
    at.of.write(changes)
    at.of.needs_restart = needs_restart  # a running bot reads these anew
    if what:
        at.of.configure("push_what", what)
    with at.of.writable() as data:
        keep(pairing, attempt.last_reply, PushFile(at.of.paths), data.rows)
    at.say(_PAIRED)
    if known is not None and known.identity != pairing.identity:
        at.say(_OLD if say_goodbye(known, before) else _OLD_UNTOLD)
    return True


def _given_server(at: Interview, given: str) -> str:
    """The address of the flag. Raises `WrongInput` if it cannot be one."""
    server = server_address(given)
    if problem := problem_with(URL, server):
        raise WrongInput(f"--server: {problem}")
    place = at.of.stronger_place(URL)
    if place is not None and at.of.settings.ntfy.url != server:
        raise WrongInput(_FIXED.format(place=place))
    return server


def _asked_server(at: Interview, known: Pairing | None) -> str:
    """The address that the person chooses; empty for none. No server is preset."""
    set_up = at.of.settings.ntfy.url
    if at.of.stronger_place(URL) and set_up:
        return set_up
    present = known.server if known is not None else set_up or ""
    at.say(_WAYS)
    question = _WHICH_OR_KEEP.format(present=present) if present else _WHICH
    answer = at.ask_right(question, _way_problem)
    if answer == "2":
        return PUBLIC_SERVER
    if answer == "1":
        answer = at.ask_right(_ADDRESS, _address_problem)
        return server_address(answer)
    return server_address(answer) if answer else present


def _way_problem(typed: str) -> str:
    """What is wrong with a number of the list; an address says at once which server it is."""
    if typed in ("1", "2"):
        return ""
    return _address_problem(typed) if "." in typed or ":" in typed else _NOT_A_WAY


def _address_problem(typed: str) -> str:
    return problem_with(URL, server_address(typed))


def _check(
    at: Interview, account: NtfyAccount, topics: tuple[str, str] | None
) -> tuple[PairingAttempt, NtfyAccount] | None:
    """Try the server, and ask for the tokens that it wants; None if the person gives none."""
    while True:
        attempt = PairingAttempt(account, lambda: at.of.now, topics)
        topics = (attempt.topic, attempt.reply_topic)
        try:
            warnings = attempt.check_server()
        except TokenNeeded as needed:
            token = _asked_token(at, needed, TOKEN, "The bot's token there")
            account = replace(account, token=token)
        except ReplyTokenNeeded as needed:
            token = _asked_token(at, needed, REPLY_TOKEN, "A token that may only write there")
            account = replace(account, reply_token=token)
        else:
            at.say("\n".join([_GOOD, *warnings]))
            return attempt, account
        if token is None:
            return None


def _asked_token(at: Interview, needed: OllimError, name: str, question: str) -> Secret | None:
    """Raises `needed` if the settings of a stronger place count."""
    for each in (URL, name):
        if place := at.of.stronger_place(each):
            raise OllimError(f"{needed} {_STRONGER.format(name=each, place=place)}")
    at.say(str(needed))
    token = at.ask_secret(question, lambda text: problem_with(name, text))
    return Secret(token) if token else None


def _env_changes(at: Interview, account: NtfyAccount) -> EnvChanges:
    """Address and tokens are written together; those of another server are taken out."""
    if at.of.stronger_place(URL):
        return {}
    if account.token is not None or account.reply_token is not None:
        tokens = {TOKEN: account.token, REPLY_TOKEN: account.reply_token}
        given = {name: each.reveal() if each else None for name, each in tokens.items()}
        return {URL: account.url, **given}
    others = [name for name in (URL, TOKEN, REPLY_TOKEN) if at.of.is_set(name)]
    if not others or at.of.settings.ntfy.url == account.url:
        return {}
    at.say(_TAKEN_OUT.format(names=" and ".join(others)))
    return dict.fromkeys(others)


def _asked_what(at: Interview) -> str:
    at.say(_BOTH)
    right = dict.fromkeys(_RINGS, "")
    answer = at.ask_right(_WHICH_RINGS, lambda text: right.get(text, _NOT_A_WAY))
    return _RINGS[answer or "1"]


def code_lines(rows: Sequence[Sequence[bool]], *, has_colours: bool) -> Iterator[str]:
    """The QR code in half blocks; without colours it is meant for light signs on a dark screen."""
    blank = [not has_colours] * len(rows)
    for upper, lower in zip_longest(rows[::2], rows[1::2], fillvalue=blank):
        pairs = zip(upper, lower, strict=True)
        line = "".join(_MARKS[up == has_colours, low == has_colours] for up, low in pairs)
        yield f"{_COLOURS}{line}{_RESET}" if has_colours else line


@contextmanager
def waiting_line() -> Iterator[Callable[[timedelta], None]]:
    """Shows on one line of the terminal how long the press still counts."""
    is_terminal = sys.stdout.isatty()
    shown = ""

    def show(left: timedelta) -> None:
        nonlocal shown
        seconds = ceil(left.total_seconds())
        line = WAITING.format(left=f"{seconds // 60}:{seconds % 60:02}")
        if line != shown and (is_terminal or not shown):
            shown = line
            print(
                f"\r{line} " if is_terminal else line, end="" if is_terminal else "\n", flush=True
            )

    try:
        yield show
    finally:
        if is_terminal and shown:
            print(f"\r{' ' * (len(shown) + 1)}\r", end="", flush=True)
