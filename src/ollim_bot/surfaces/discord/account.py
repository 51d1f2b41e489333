"""Checks of what is reached over the network."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ollim_bot import __version__
from ollim_bot.features.doctor.data_checks import open_to_others
from ollim_bot.features.google.google_values import in_words
from ollim_bot.features.google.tokens import GoogleTokenStore, read_client
from ollim_bot.features.phone.push_file import PushFile
from ollim_bot.kernel.base.desktop_notification import DesktopNotifier
from ollim_bot.kernel.base.errors import SignInNeeded, StorageError
from ollim_bot.kernel.base.http_exchange import HttpLimits, exchange
from ollim_bot.kernel.base.instance import running_pid
from ollim_bot.kernel.base.moments import describe, duration_in_words
from ollim_bot.kernel.base.settings import Secret
from ollim_bot.kernel.upkeep.findings import (
    Check,
    DoctorFinding,
    DoctorInput,
    NotApplicable,
    failed,
    off,
    passed,
    warned,
)
from ollim_bot.kernel.values.push import Pairing
from ollim_bot.kernel.values.runtime_config import RuntimeConfig
from ollim_bot.kernel.values.surface_state import PushState

_LIMITS = HttpLimits(step=5.0, whole=10.0, largest=1_000_000)


class HttpAnswer(NamedTuple):
    """`said` is None if the body is not JSON; `server` is the name that the server gives itself."""

    status: int
    said: Any
    server: str = ""


Ask = Callable[[str, Mapping[str, str]], HttpAnswer]


def ask(url: str, headers: Mapping[str, str]) -> HttpAnswer:
    """Raises `ConnectionRefusedError` if no program listens, `TimeoutError` if it is too slow.

    Raises another `OSError` if what answers does not speak HTTP.
    """
    answer = exchange("GET", url, headers, limits=_LIMITS)
    try:
        said = json.loads(answer.body)
    except ValueError:
        said = None
    return HttpAnswer(answer.status, said, answer.headers.get("server", ""))


USUAL_ADDRESS = "https://discord.com/api/v10"

# Of an application in many servers, and of a small one.
_MESSAGE_CONTENT = (1 << 18) | (1 << 19)

NO_TOKEN = "Discord refused the token"
_NEW_TOKEN = "Run `ollim-bot setup discord` with a new one, then start the bot again."
_AWAY = "Discord cannot be reached now"
_TRIES = "Look at the network; the bot tries again by itself, and `ollim-bot doctor` tells when."
_WAIT = "Nothing to do: the bot tries again by itself, and `ollim-bot doctor` tells when."
_STRANGE = "what answers there is not Discord"
_RIGHT_ADDRESS = "Look at `DISCORD_API_URL` and at the network, then run `ollim-bot doctor`."
_TEAM = "the application belongs to a team, and nobody says for which member it works"
_SET_OWNER = "Run `ollim-bot setup discord`: it asks who you are, and sets `DISCORD_OWNER_ID`."
_TAKE_OUT = (
    "Take `DISCORD_OWNER_ID` out of `.env`, it is for applications of a team only; then run "
    "`ollim-bot doctor` again."
)


def check_discord(given: DoctorInput) -> Iterator[DoctorFinding]:
    settings = given.valid_settings
    yield discord_account(
        settings.discord_token, settings.discord_owner_id, settings.discord_api_url, ask
    )


def discord_account(
    token: Secret | None, owner_id: int | None, address: str | None, ask: Ask
) -> DoctorFinding:
    if token is None:
        return off("not set up; `ollim-bot setup discord` does it")
    account = look_up_bot(token, address, ask)
    return account if isinstance(account, DoctorFinding) else account.owned_by(owner_id)


class DiscordBot(NamedTuple):
    """What Discord says of a token: the bot's user, and its application."""

    user: Mapping[str, Any]
    application: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.user.get("username"))

    @property
    def team(self) -> Sequence[tuple[str, str]] | None:
        """The id and the name of each member; None if the application is a person's own."""
        team = self.application.get("team")
        if not isinstance(team, dict):
            return None
        users = [member.get("user", {}) for member in team.get("members", ())]
        return [(str(user.get("id")), str(user.get("username"))) for user in users]

    @property
    def sees_message_content(self) -> bool:
        """Whether the privileged intent is on, which direct messages do not need."""
        flags = self.application.get("flags")
        return isinstance(flags, int) and bool(flags & _MESSAGE_CONTENT)

    def owned_by(self, owner_id: int | None) -> DoctorFinding:
        """Whether it is clear for whom the bot works."""
        if (team := self.team) is not None:
            if owner_id is None:
                return failed(_TEAM, _SET_OWNER)
            if (member := dict(team).get(str(owner_id))) is not None:
                return passed(f"{self.name} is let in, for {member} of the team")
            wrong = f"`DISCORD_OWNER_ID` is {owner_id}, who is not in the team of the application"
            step = "Put the user id of a member there and start the bot again: `ollim-bot`."
            return failed(wrong, step)
        owner = self.application.get("owner")
        if not isinstance(owner, dict):
            return failed(_STRANGE, _RIGHT_ADDRESS)
        whom = owner.get("username")
        if owner_id is not None and str(owner_id) != owner.get("id"):
            other = f"{self.name} is for {whom}, and not for `DISCORD_OWNER_ID` {owner_id}"
            return warned(other, _TAKE_OUT)
        return passed(f"{self.name} is let in, for {whom}")


def look_up_bot(token: Secret, address: str | None, ask: Ask) -> DiscordBot | DoctorFinding:
    """Ask Discord whose token it is; the finding says why that is not known."""
    base = address or USUAL_ADDRESS
    headers = {
        "Authorization": f"Bot {token.reveal()}",
        "User-Agent": f"DiscordBot (ollim-bot, {__version__})",
    }
    try:
        bot = ask(f"{base}/users/@me", headers)
        application = ask(f"{base}/oauth2/applications/@me", headers)
    except OSError:
        return warned(_AWAY, _TRIES)
    trouble = _trouble(bot) or _trouble(application)
    return trouble or DiscordBot(bot.said, application.said)


def _trouble(answer: HttpAnswer) -> DoctorFinding | None:
    match answer.status:
        case 401:
            return failed(NO_TOKEN, _NEW_TOKEN)
        case 429:
            return warned("Discord asks to wait", _WAIT)
        case status if status >= 500:
            return warned(_AWAY, _TRIES)
        case 200 if isinstance(answer.said, dict):
            return None
    return failed(_STRANGE, _RIGHT_ADDRESS)


_NO_PRESS_FOR = timedelta(days=7)
_PHONE_TRIES = "Look at the network; the bot tries again by itself. `ollim-bot push test` tells."


def check_phone(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths = given.data.paths
    yield from open_to_others(paths.push)
    try:
        pairing = PushFile(paths).read()
    except StorageError as unreadable:
        step = "Run `ollim-bot push setup --new`."
        yield failed(f"state/{paths.push.name} {unreadable.reason}", step)
        return
    if pairing is None:
        yield off("not paired; `ollim-bot push setup` does it")
        return
    state = given.read(lambda tx: tx.push.get()) or PushState()
    yield from phone(pairing, state, given.valid_settings.ntfy.url, given.local_now, ask)


def phone(
    pairing: Pairing, state: PushState, address: str | None, now: datetime, ask: Ask
) -> Iterator[DoctorFinding]:
    """`address` is what `NTFY_URL` says."""
    host = urlsplit(pairing.server).netloc
    if address is not None and address != pairing.server:
        other = f"but NTFY_URL names {urlsplit(address).netloc}; no token is sent"
        yield warned(f"your phone is paired with {host}, {other}")
    try:
        answer = ask(f"{pairing.server}/v1/health", {})
    except OSError:
        answer = HttpAnswer(503, None)
    if answer.status >= 500 or answer.status == 429:
        yield warned(f"{host} cannot be reached now, so nothing comes to your phone", _PHONE_TRIES)
        return
    if not isinstance(answer.said, dict) or "healthy" not in answer.said:
        yield failed(f"what answers at {host} is no server for your phone")
        return
    pressed = max(filter(None, (pairing.paired_at, state.last_press)))
    since = describe(pressed, now)
    if now - pressed > _NO_PRESS_FOR:
        silent = f"no button was pressed on your phone since {since}"
        gone = f"{silent}: {host} takes the messages, but the phone may be gone"
        yield warned(gone, "Run `ollim-bot push test` and press its button.")
    else:
        yield passed(f"paired with {host}; a button was last pressed {since}")


_PUBLISH = (
    "Publish the app at https://console.cloud.google.com/auth/audience, then run "
    "`ollim-bot google login`."
)


def check_google(given: DoctorInput) -> Iterator[DoctorFinding]:
    """Looks at the files only: `ollim-bot google status` asks Google."""
    paths = given.data.paths
    for path in (paths.credentials, paths.token):
        yield from open_to_others(path)
    if paths.credentials.exists():
        try:
            read_client(paths)
        except SignInNeeded:
            step = "Run `ollim-bot google login`: it says what is wrong with it."
            yield failed("state/credentials.json is not right", step)
    tokens = GoogleTokenStore(paths, lambda: given.now)
    try:
        token, revoked = tokens.read(), tokens.revocation()
    except StorageError as unreadable:
        yield failed(f"state/token.json {unreadable.reason}")
        return
    if token is not None:
        whom = f" as {token.account}" if token.account else ""
        words = f"connected{whom}: {in_words(token.services)}"
        if token.refresh_ends_at is None:
            yield passed(words)
        else:
            ends = describe(token.refresh_ends_at, given.local_now)
            yield warned(f"{words}; Google ends it {ends}", _PUBLISH)
    elif revoked is not None:
        whom = f" to {revoked.account}" if revoked.account else ""
        yield warned(f"the connection{whom} was revoked or has expired")
    else:
        yield off("not connected; `/google-auth` in the chat connects it")


_HOST = "127.0.0.1"
_OURS = "ollim-bot"
_STANDING_STILL = 120.0
_NO_HOSTS = frozenset({"0.0.0.0", "http", "https"})

_TURN_ON = "Set OLLIM_WEB_PORT to a port, such as 8421, and start the bot again: `ollim-bot`."
_RESTART = "`/restart` in the chat, or stop it and run `ollim-bot`; nothing is lost."
_LOOK = "Look into the log of the bot, then stop it and run `ollim-bot` again."
_NO_NAMES = "Take OLLIM_WEB_HOSTS out of the settings and run `ollim-bot doctor` again."
_NAMES = "Put the names there by which a browser asks for the page, and run `ollim-bot` again."


def check_page(given: DoctorInput) -> Iterator[DoctorFinding]:
    settings = given.valid_settings
    yield from page(
        settings.web_port,
        ask,
        is_running=running_pid(settings.paths.bot_pid) is not None,
        has_discord=settings.discord_token is not None,
    )
    yield from hosts(settings.web_hosts, settings.web_port)


def check_reach(given: DoctorInput) -> Iterator[DoctorFinding]:
    """What tells the owner of a reminder while the page is closed."""
    if given.is_agents:
        raise NotApplicable
    config = given.read(lambda tx: tx.config.get()) or RuntimeConfig()
    if given.valid_settings.discord_token is not None:
        yield passed("what comes is sent to Discord")
    elif given.data.paths.push.exists():
        yield passed("what comes is sent to your phone")
    elif DesktopNotifier(given.environ).can_show(config.desktop_notifications):
        yield passed("what comes is shown on the desktop")
    else:
        yield off("nothing reaches you but the page: what comes is seen when you look there")


def page(
    port: int | None,
    ask: Ask,
    *,
    is_running: bool,
    has_discord: bool,
    refusal: Callable[[int], str] | None = None,
) -> Iterator[DoctorFinding]:
    """`is_running` is about the bot of this data directory; `refusal` is `why_not_free`."""
    if port is None:
        nowhere = "the page is off, and so is Discord: nobody can talk to the bot"
        is_off = off("switched off by OLLIM_WEB_PORT=0")
        yield is_off if has_discord else failed(nowhere, _TURN_ON)
        return
    other = f"another program has port {port}"
    try:
        answer = ask(f"http://{_HOST}:{port}/healthz", {})
    except OSError as silent:
        is_late = is_running and isinstance(silent, TimeoutError)
        if not is_late and not isinstance(silent, ConnectionRefusedError):
            yield failed(other)
        elif is_running:
            yield failed(f"the bot runs, but nothing answers at port {port}", _LOOK)
        elif reason := (refusal or why_not_free)(port):
            yield failed(f"port {port} cannot be used: {reason}", _TURN_ON)
        else:
            yield passed(f"port {port} is free")
        return
    if answer.server != _OURS or not isinstance(answer.said, dict):
        yield failed(other)
        return
    age = answer.said.get("heartbeat_age")
    if not is_running:
        yield failed(f"another ollim-bot has port {port}")
    elif isinstance(age, int | float) and age > _STANDING_STILL:
        since = duration_in_words(timedelta(seconds=age))
        yield warned(f"it answers, but the schedule stands still since {since}", _RESTART)
    else:
        yield passed(f"the bot answers at port {port}")


def hosts(names: Sequence[str], port: int | None) -> Iterator[DoctorFinding]:
    """What is wrong with `OLLIM_WEB_HOSTS`."""
    if names and port is None:
        yield warned("OLLIM_WEB_HOSTS has no effect, since the page is off", _NO_NAMES)
    for name in names:
        if name in _NO_HOSTS:
            yield warned(f"OLLIM_WEB_HOSTS: {name} is no name of a machine", _NAMES)


def why_not_free(port: int) -> str:
    """Why a program cannot listen at that port; empty if it can."""
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((_HOST, port))
        except OSError as refused:
            return refused.strerror or str(refused)
    return ""


_PAIR_SERVER = "Run `ollim-bot push setup` with the server that you want."
_CONNECT_AGAIN = "Run `ollim-bot google login`, or `ollim-bot google logout` to leave it out."
_OTHER_PORT = "Stop that one, or set OLLIM_WEB_PORT to another port and run `ollim-bot` again."

CHECKS = (
    Check("Discord", check_discord, is_owners=True, is_of_machine=True, place=240),
    Check("phone", check_phone, _PAIR_SERVER, is_owners=True, place=250),
    Check("Google", check_google, _CONNECT_AGAIN, place=260),
    Check("page", check_page, _OTHER_PORT, is_of_machine=True, place=270),
    Check("reach", check_reach, place=280),
)
