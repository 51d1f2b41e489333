"""`ollim-bot update`: puts a newer version in the place of this one, if that one works."""

from __future__ import annotations

from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import Given, argument, command, plain
from ollim_bot.surfaces.terminal.printing import show

_PLAN = """\
{new} is there; this is {old}, {installation}.
`ollim-bot update` installs {new} beside this version, makes a backup, and goes on as {new}. If \
that does not start, this version goes on with your data as they were.

{changes}"""


@command(
    "update",
    "install a newer version, after a backup; if it does not work, the old one stays",
    "--check",
    argument(
        "--check", action="store_true", help="only say what would happen, and what would change"
    ),
    argument("--when-idle", action="store_true", help="let the running bot choose an idle moment"),
)
def run(given: Given, caller: Caller) -> None:
    from ollim_bot.features.install.releases import find_installation, release_source
    from ollim_bot.features.install.updater import NothingNewer, Updater
    from ollim_bot.kernel.upkeep.hand_over import Phase

    installation, place = find_installation(), caller.place()
    updater = Updater(
        place.paths,
        installation,
        release_source(installation, caller.environ),
        caller.environ,
        lambda: caller.now().astimezone(place.zone),
        _print,
    )
    try:
        if "check" not in given:
            outcome = updater.run(when_idle="when_idle" in given)
            if outcome.phase is not Phase.DONE:
                raise OllimError(str(outcome))
            _print(str(outcome))
            return
        release = updater.check()
    except NothingNewer as newest:
        _print(str(newest))
        return
    plan = _PLAN.format(
        new=release.version,
        old=installation.version,
        installation=installation,
        changes=release.changelog or "It has no changelog.",
    )
    _print("\n\n".join(filter(None, [plan, release.trust, release.obstacle])))


def _print(text: str) -> None:
    show(plain(text))
