"""`ollim-bot` alone: checks everything that a start needs, and says what this version can do."""

from __future__ import annotations

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.data import note, opened_journal
from ollim_bot.storage.bootstrap import prepare_data_directory
from ollim_bot.upkeep.instance import single_instance

_READY = """\
The data directory is ready: {root}
Conversation and scheduling are not part of this version yet: nothing runs by itself.
What works today: `ollim-bot routine`, `ollim-bot reminder`, `ollim-bot config`.
`ollim-bot help` explains them."""


def run(caller: Caller) -> None:
    settings = caller.settings()
    for warning in settings.warnings:
        note(warning)
    prepare_data_directory(settings.paths)
    with single_instance(settings.paths.bot_pid):
        opened_journal(settings.paths).prepare()
        print(_READY.format(root=caller.shown(settings.paths.root)))
