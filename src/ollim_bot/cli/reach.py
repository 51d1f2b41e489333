"""Says in the terminal that nothing but the page shows what comes, where that is certain.

The terminal does not know which pages are open, nor the desktop of the running bot. So it speaks
only if the bot runs without a channel, and no notification of its own is wanted or possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.data import Data
from ollim_bot.upkeep.instance import running_pid

if TYPE_CHECKING:
    from ollim_bot.store.transaction import Transaction

ONLY_THERE = "the bot can only show this on its page. A phone: `ollim-bot push setup`."


def is_page_only(data: Data, caller: Caller) -> bool:
    """Whether a person has to be told; of what the agent adds, the bot's card tells it."""
    if caller.agent is not None or running_pid(data.paths.bot_pid) is None:
        return False
    from ollim_bot.upkeep.desktop import DesktopNotifier

    has_program = DesktopNotifier(caller.environ).has_program

    def question(tx: Transaction) -> bool:
        may_show = has_program and tx.config.get().desktop_notifications != "off"
        return not may_show and not tx.channels.all()

    return bool(data.read(question))
