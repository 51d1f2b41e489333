"""`ollim-bot sentinel`: delivers what must come while the bot does not run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from ollim_bot.kernel.base.errors import BadSettings, OllimError, StorageError, SupervisorFailed
from ollim_bot.kernel.store.heartbeat import HeartbeatFile, is_beating
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import JSON, Given, command, print_json, title, zone_of
from ollim_bot.surfaces.terminal.printing import show
from ollim_bot.surfaces.terminal.terminal_data import Data, note, open_data

if TYPE_CHECKING:
    from ollim_bot.features.sentinel.sentinel_file import Outcome, SentinelReport
    from ollim_bot.features.sentinel.sentinel_process import MakeChannel, SendingChannel
    from ollim_bot.kernel.base.clock import Clock
    from ollim_bot.kernel.store.store import Store

_ABOUT = (
    "delivers what must come while the bot does not run; a timer calls it every 5 minutes. It says "
    "nothing when there is nothing to do. Exit codes: 0 nothing was left undone, 1 something that "
    "must come could not be shown anywhere, 2 wrong settings"
)
_LEFT_OUT = "the settings are wrong, so {} is left out. {}"


@command("sentinel", _ABOUT, "", JSON)
def run(given: Given, caller: Caller) -> None:
    is_json, data = "json" in given, open_data(caller)
    heartbeat = HeartbeatFile(data.paths).read()
    state, ask_server = None, None
    # Nearly every call ends here, so the rest is not imported before.
    if heartbeat is None or is_beating(heartbeat, data.now):
        state = "never started" if heartbeat is None else "running"
    elif ask_server := _lease(data):
        # While the server answers, its lease says who delivers.
        try:
            state = "running" if ask_server() else "silent"
        except OllimError as unanswered:
            note(str(unanswered))
    if state == "silent":
        _is_asked(data, caller)
    if state is not None:
        if is_json:
            print_json({"bot": state, "heartbeat": heartbeat, "delivered": [], "undelivered": []})
        return
    report = _report(data, caller, ask_server)
    if is_json:
        print_json(_object(report))
    else:
        _tell(report)
    if report.has_failed:
        missing = [_missing(each) for each in report.outcomes if not each.through]
        raise OllimError("" if is_json else "\n".join(missing))


def _lease(data: Data) -> Callable[[], bool] | None:
    """Asks whether a machine leads the database that several share; None if it is not shared."""
    from ollim_bot.kernel.store.standby_loader import load_standby, shared_address

    url = shared_address(data.environ, data.paths)
    return None if url is None else partial(load_standby("postgres.lease").is_led, url)


def _report(data: Data, caller: Caller, ask_server: Callable[[], bool] | None) -> SentinelReport:
    from asyncio import run as run_loop

    from ollim_bot.features.sentinel.sentinel_process import Sentinel, SentinelEnvironment
    from ollim_bot.kernel.base.clock import SystemClock
    from ollim_bot.kernel.base.desktop_notification import DesktopNotifier
    from ollim_bot.kernel.store.codecs.config_codec import RuntimeConfigCodec
    from ollim_bot.kernel.upkeep.hand_over import maintenance_in_progress

    class Clock(SystemClock):
        """Shows the time that the caller was given."""

        def now(self) -> datetime:
            return caller.now().astimezone(zone_of(data.now))

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
        ask_server=ask_server,
        # Nothing of a message leaves the machine where that cannot be read.
        push_content="none" if problems else config.push_content,
    )
    report = run_loop(Sentinel(data.paths, Clock(zone_of(data.now)), around).run())
    for problem in report.problems:
        note(problem)
    return report


def _is_asked(data: Data, caller: Caller) -> bool:
    """Ask the supervisor for the bot; False if none keeps it, or the supervisor refuses."""
    from ollim_bot.features.install.service import service_of

    supervisor = service_of(data.paths, caller.environ)
    if supervisor is None:
        return False
    try:
        supervisor.start()
    except SupervisorFailed as failed:
        note(str(failed))
        return False
    return True


def _channels(data: Data, caller: Caller) -> Mapping[str, MakeChannel]:
    """Those that are set up; without one whose settings are wrong, or whose file is."""
    from ollim_bot.kernel.base.settings import CHANNELS, channel_label

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
        from ollim_bot.kernel.store.attachments.attachment_files import files_of
        from ollim_bot.surfaces.discord.surface import Account, DiscordSurface

        paths = data.paths
        account = Account(token, settings.discord_owner_id, settings.discord_api_url)
        opener = files_of(paths.root, paths.attachments)
        return DiscordSurface(account, store, opener, paths.state / DiscordSurface.name, clock)

    return made


def _phone(data: Data, caller: Caller) -> MakeChannel | None:
    from ollim_bot.features.phone.push_file import PushFile
    from ollim_bot.kernel.base.settings import ntfy_account

    file = PushFile(data.paths)
    if file.read() is None:
        return None
    account, bot = ntfy_account(caller.environ, cwd=caller.path(".")), "ollim-bot"
    with suppress(BadSettings):
        bot = caller.settings().bot_name

    def made(store: Store, clock: Clock) -> SendingChannel:
        from ollim_bot.features.phone.ntfy_channel import NtfyChannel

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
    from ollim_bot.kernel.base.settings import CHANNELS, channel_label

    return channel_label(name) if name in CHANNELS else name


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
        "delivered": [each._asdict() for each in report.outcomes if each.through],
        "undelivered": [each._asdict() for each in report.outcomes if not each.through],
        "problems": report.problems,
    }
