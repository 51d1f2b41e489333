"""`ollim-bot sentinel`: delivers what must come while the bot does not run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, tzinfo
from functools import partial
from typing import TYPE_CHECKING

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.data import Data, note, open_data
from ollim_bot.cli.framework import JSON, Given, command, print_json, title, zone_of
from ollim_bot.cli.terminal import show
from ollim_bot.errors import BadSettings, OllimError, StorageError, SupervisorFailed
from ollim_bot.store.heartbeat import HeartbeatFile, is_beating

if TYPE_CHECKING:
    from ollim_bot.app.sentinel import MakeChannel, SendingChannel
    from ollim_bot.domain.sentinel import Outcome, SentinelReport
    from ollim_bot.ports import Clock
    from ollim_bot.store.store import Store

_ABOUT = (
    "delivers what must come while the bot does not run; a timer calls it every 5 minutes. It says "
    "nothing when there is nothing to do. Exit codes: 0 nothing was left undone, 1 something that "
    "must come could not be shown anywhere, 2 wrong settings"
)
_LEFT_OUT = "the settings are wrong, so {} is left out. {}"


@command("sentinel", _ABOUT, "", JSON)
def run(given: Given, caller: Caller) -> None:
    is_json = "json" in given
    data = open_data(caller)
    heartbeat = HeartbeatFile(data.paths).read()
    # Nearly every call ends here, so the rest is not imported before.
    url = None
    if heartbeat is None or is_beating(heartbeat, data.now):
        state: str | None = "never started" if heartbeat is None else "running"
    else:
        url = _shared_address(data)
        state = None if url is None else _by_the_lease(data, caller, url)
    if state is not None:
        if is_json:
            print_json({"bot": state, "heartbeat": heartbeat, "delivered": [], "undelivered": []})
        return
    report = _report(data, caller, None if url is None else partial(_is_away, url))
    if is_json:
        print_json(_object(report))
    else:
        _tell(report)
    if report.has_failed:
        raise OllimError("" if is_json else _undelivered(report))


def _shared_address(data: Data) -> str | None:
    from ollim_bot.store.standby import shared_address

    return shared_address(data.environ, data.paths)


def _by_the_lease(data: Data, caller: Caller, url: str) -> str | None:
    """How the bot is, by a database that several machines share; None if it does not answer.

    While it answers, its lease says who delivers. If no machine leads, the supervisor is asked to
    start the bot here.
    """
    try:
        if _is_led(url):
            return "running"
    except OllimError as unanswered:
        note(str(unanswered))
        return None
    _is_asked(data, caller, is_running=False)
    return "silent"


def _is_away(url: str) -> bool:
    try:
        _is_led(url)
    except OllimError:
        return True
    return False


def _is_led(url: str) -> bool:
    from ollim_bot.store.standby import load_standby

    leader = load_standby("postgres.lease").leader_at(url)
    return leader is not None and bool(leader.is_leading)


class _Clock:
    """The real time, or the one that the caller was given."""

    def __init__(self, caller: Caller, zone: tzinfo) -> None:
        self._caller = caller
        self._zone = zone

    def now(self) -> datetime:
        return self._caller.now().astimezone(self._zone)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        from asyncio import sleep

        await sleep(seconds)


def _report(
    data: Data, caller: Caller, is_server_away: Callable[[], bool] | None
) -> SentinelReport:
    from asyncio import run as run_loop

    from ollim_bot.app.sentinel import Sentinel, SentinelEnvironment
    from ollim_bot.store.codecs.config import RuntimeConfigCodec
    from ollim_bot.upkeep.desktop import DesktopNotifier
    from ollim_bot.upkeep.hand_over import maintenance_in_progress

    def maintenance() -> str | None:
        found = maintenance_in_progress(data.paths)
        return None if found is None else found.kind

    problems: list[str] = []
    config = data.stored(data.paths.config, RuntimeConfigCodec(), problems.append)
    around = SentinelEnvironment(
        channels=_channels(data, caller),
        notify=DesktopNotifier(caller.environ).notify,
        revive=partial(_is_asked, data, caller),
        maintenance=maintenance,
        is_server_away=is_server_away,
        # Nothing of a message leaves the machine where that cannot be read.
        push_content="none" if problems else config.push_content,
    )
    clock = _Clock(caller, zone_of(data.now))
    report = run_loop(Sentinel(data.paths, clock, around).run())
    for problem in report.problems:
        note(problem)
    return report


def _is_asked(data: Data, caller: Caller, is_running: bool) -> bool:
    """Ask the supervisor for the bot; False if none keeps it, or the supervisor refuses."""
    from ollim_bot.upkeep.installation import service_of

    supervisor = service_of(data.paths, caller.environ)
    if supervisor is None:
        return False
    try:
        supervisor.restart() if is_running else supervisor.start()
    except SupervisorFailed as failed:
        note(str(failed))
        return False
    return True


def _channels(data: Data, caller: Caller) -> Mapping[str, MakeChannel]:
    """Those that are set up; without one whose settings are wrong, or whose file is."""
    from ollim_bot.settings import CHANNELS, channel_label

    found: dict[str, MakeChannel] = {}
    for name, make in zip(CHANNELS, (_discord, _phone), strict=True):
        try:
            made = make(data, caller)
        except BadSettings as bad:
            note(_LEFT_OUT.format(channel_label(name), " ".join(bad.problems)))
        except StorageError as unreadable:
            note(str(unreadable))
        else:
            found |= {} if made is None else {name: made}
    return found


def _discord(data: Data, caller: Caller) -> MakeChannel | None:
    settings = caller.settings()
    token = settings.discord_token
    if token is None:
        return None

    def made(store: Store, clock: Clock) -> SendingChannel:
        from ollim_bot.store.attachments.files import files_of
        from ollim_bot.surfaces.discord.surface import Account, DiscordSurface

        paths = data.paths
        account = Account(token, settings.discord_owner_id, settings.discord_api_url)
        opener = files_of(paths.root, paths.attachments)
        return DiscordSurface(account, store, opener, paths.state / DiscordSurface.name, clock)

    return made


def _phone(data: Data, caller: Caller) -> MakeChannel | None:
    from ollim_bot.settings import ntfy_account
    from ollim_bot.store.push_file import PushFile

    file = PushFile(data.paths)
    if file.read() is None:
        return None
    account, bot = ntfy_account(caller.environ, cwd=caller.path(".")), "ollim-bot"
    with suppress(BadSettings):
        bot = caller.settings().bot_name

    def made(store: Store, clock: Clock) -> SendingChannel:
        from ollim_bot.surfaces.ntfy.channel import NtfyChannel

        return NtfyChannel(store, file, lambda: account, clock, bot=bot)

    return made


def _tell(report: SentinelReport) -> None:
    if report.is_revived:
        show("The bot was silent. The supervisor was asked to start it.")
    if report.came_back and report.is_revived:
        show("The bot is back.")
    for each in report.outcomes:
        if each.through:
            show(f"“{title(each.title)}” was delivered: {', '.join(map(_way, each.through))}.")
            if each.missed:
                show(f"  Not by {' and '.join(map(_way, each.missed))}: {each.problem}")


def _way(name: str) -> str:
    from ollim_bot.settings import CHANNELS, channel_label

    return channel_label(name) if name in CHANNELS else name


def _undelivered(report: SentinelReport) -> str:
    missing = [each for each in report.outcomes if not each.through]
    return "\n".join(_missing(each) for each in missing)


def _missing(outcome: Outcome) -> str:
    name = f"“{title(outcome.title)}” is due and could not be shown: {outcome.problem.rstrip('.')}."
    if not outcome.kept_in:
        return f"{name} It could not be kept either."
    return f"{name} It is kept, and the page shows it when the bot runs again."


def _object(report: SentinelReport) -> dict[str, object]:
    return {
        "bot": report.state,
        "heartbeat": report.heartbeat,
        "is_second": report.is_second,
        "asked_supervisor": report.is_revived,
        "bot_came_back": report.came_back,
        "due": [
            {"occurrence": one.occurrence.id, "title": one.job.spec.title, "due": one.due}
            for one in report.waits_for
        ],
        "delivered": [_outcome(each) for each in report.outcomes if each.through],
        "undelivered": [_outcome(each) for each in report.outcomes if not each.through],
        "problems": report.problems,
    }


def _outcome(outcome: Outcome) -> dict[str, object]:
    return outcome._asdict()
