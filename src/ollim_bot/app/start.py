"""`ollim-bot` alone: runs the bot until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from functools import partial
from importlib import import_module

from ollim_bot import __version__
from ollim_bot.app.app import Adapters, App, Ending
from ollim_bot.app.surfaces import MakeChannel
from ollim_bot.features.phone.push_file import PushFile
from ollim_bot.features.settings.settings_view import PhoneSettings
from ollim_bot.kernel.base.clock import Clock, SystemClock
from ollim_bot.kernel.base.environment import own_command, python_places
from ollim_bot.kernel.base.errors import AlreadyRunning, OllimError
from ollim_bot.kernel.base.logs import RedactingFilter, set_up_logging
from ollim_bot.kernel.base.loopback import allow_many_descriptors
from ollim_bot.kernel.base.orphans import Orphans
from ollim_bot.kernel.base.settings import Settings, ntfy_account
from ollim_bot.kernel.store.database_errors import NotLeading
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.upkeep.hand_over import note_failed_start, read_update, wait_for_switch
from ollim_bot.kernel.values.ports import Channel, OpenAttachment
from ollim_bot.kernel.values.provider import Provider
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.printing import (
    Style,
    own_name,
    painted,
    show,
    typed,
    width_of,
    wrapped,
)
from ollim_bot.surfaces.terminal.terminal_data import note
from ollim_bot.surfaces.web.page import WebSurface

_RUNNING = "ollim-bot {version} is running with its data in {root}. Ctrl-C stops it."
_STOPPED = (
    "ollim-bot has stopped. Reminders wait until you start it again; then you get the ones you "
    "missed."
)
_HERE = (
    "Talk to it here. The address opens one browser, once, within 15 minutes; `ollim-bot web url` "
    "prints another."
)
_AT_PORT = "Its page is at port {port}; `ollim-bot web url` prints an address that opens it."
_NO_SURFACE = (
    "There is no page and no Discord, so nobody can talk to it. Take OLLIM_WEB_PORT=0 out of the "
    "settings, or set DISCORD_TOKEN."
)
_FAULT = (
    "A fault in the program stopped the bot; the log above says which. Nothing is lost: start it "
    "again."
)

# A thread that looks at ten thousand files lets the others go on at each, and beside a busy one
# waits so long to go on itself. With Python's own 5 ms, a look could take seconds.
SWITCH_INTERVAL = 0.0005

_DISCORD = "ollim_bot.surfaces.discord.surface"

_logger = logging.getLogger(__name__)


def run(caller: Caller, *, is_trial: bool = False) -> None:
    """Run the bot. On trial it starts, and ends where it would begin to serve: an update asks so.

    The exit code of a trial says whether this version can run on this data directory.
    """
    # All that is loaded stays, so that no collection needs to look through it.
    gc.freeze()
    gc.enable()
    sys.setswitchinterval(SWITCH_INTERVAL)
    settings = caller.settings()
    for warning in settings.warnings:
        note(warning)
    clock = SystemClock(settings.zone)
    redacting = set_up_logging(
        settings.log_level,
        settings.log_format,
        secrets=settings.secrets(),
        clock=clock,
        stream=sys.stderr,
    )
    allow_many_descriptors()
    orphans = Orphans()
    orphans.adopt()
    try:
        ending = asyncio.run(_until_stopped(settings, clock, caller, redacting, is_trial=is_trial))
    except OllimError as refused:
        is_other = isinstance(refused, AlreadyRunning)
        if is_other or not note_failed_start(settings.paths, str(refused)) or is_trial:
            raise
        note(str(refused))
        ending = Ending.RESTART
    except NotLeading as over:
        note(str(over))
        raise
    except Exception as fault:  # every fault goes through the log, which redacts secrets
        _logger.exception("A fault ended the bot")
        # An update tells the owner this reason; one of an earlier version has it from a trial.
        reason = redacting.redacted(f"{type(fault).__name__}: {fault}")
        if not note_failed_start(settings.paths, reason) or is_trial:
            raise OllimError(reason if is_trial else _FAULT) from None
        ending = Ending.RESTART
    finally:
        orphans.end()
    if ending is Ending.STOPPED and not is_trial:
        show(_STOPPED)
    if ending is Ending.RESTART:
        # The version in place afterwards is the one that the command starts.
        wait_for_switch(settings.paths)
        command = own_command()
        os.execve(command[0], command, {**os.environ, **python_places(os.environ, os.getcwd())})


async def _until_stopped(
    settings: Settings,
    clock: SystemClock,
    caller: Caller,
    redacting: RedactingFilter,
    *,
    is_trial: bool,
) -> Ending:
    def announce(provider: Provider, page: WebSurface | None) -> None:
        show(_RUNNING.format(version=__version__, root=caller.shown(settings.paths.root)))
        show(provider.who_answers)
        if page is not None:
            redacting.learn(page.secret.reveal())
            # The address admits a browser only to a terminal: other outputs may be stored.
            if sys.stdout.isatty():
                address = painted(page.address(), Style.BOLD, sys.stdout, caller.environ)
                here = wrapped(typed(_HERE), width_of(sys.stdout))
                print(f"\n{here}\n\n{address}\n", flush=True)
            else:
                print(typed(_AT_PORT.format(port=page.port)), flush=True)
        elif settings.discord_token is None:
            note(_NO_SURFACE)

    def phone(store: Store, clock: Clock) -> PhoneSettings:
        """The phone on the page; its account is read anew each time, as set-up may change it."""
        from ollim_bot.features.phone.phone_page import PhonePage

        account = partial(ntfy_account, caller.environ, cwd=caller.path("."))
        return PhonePage(store, PushFile(settings.paths), account, clock)

    app = App(
        settings,
        Adapters(clock=clock),
        channels=_channels(settings, caller),
        phone=phone,
        announce=announce,
        program=own_name(),
        is_trial=is_trial,
    )
    loop = asyncio.get_running_loop()

    def end() -> None:
        update = read_update(settings.paths)
        is_asked = update is not None and update.asks(os.getpid())
        app.stop(Ending.RESTART if is_asked else Ending.STOPPED)

    loop.add_signal_handler(signal.SIGINT, app.stop)
    loop.add_signal_handler(signal.SIGTERM, end)
    return await app.run()


def _channels(settings: Settings, caller: Caller) -> list[MakeChannel]:
    """The phone may be paired while the bot runs. Discord is slow to load, so only if it is set."""
    token = settings.discord_token
    # A phone opens the page by a name that leads to it from outside, if it has one.
    page = f"https://{settings.web_hosts[0]}/" if settings.web_port and settings.web_hosts else ""

    def phone(store: Store, _: OpenAttachment, clock: Clock) -> Channel:
        from ollim_bot.features.phone.ntfy_channel import NtfyChannel

        account = partial(ntfy_account, caller.environ, cwd=caller.path("."))
        return NtfyChannel(store, PushFile(settings.paths), account, clock, page=page)

    if token is None:
        return [phone]
    # The start waits for other programs meanwhile.
    _ = asyncio.get_running_loop().run_in_executor(None, import_module, _DISCORD)

    def discord(store: Store, opener: OpenAttachment, clock: Clock) -> Channel:
        from ollim_bot.surfaces.discord.surface import Account, DiscordSurface

        account = Account(token, settings.discord_owner_id, settings.discord_api_url)
        downloads = settings.paths.state / DiscordSurface.name
        return DiscordSurface(account, store, opener, downloads, clock)

    return [discord, phone]
