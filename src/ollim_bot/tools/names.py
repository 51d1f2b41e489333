"""The tool that changes how the owner and the bot are called."""

from __future__ import annotations

from ollim_bot.domain.agent_caller import asks
from ollim_bot.domain.schedule import GivenNames
from ollim_bot.ports import ToolAnswer
from ollim_bot.tools.context import MAIN, Arguments, OwnTool, ToolContext, arguments, text

_LONGEST = 80
_WHO = {"user_name": "the owner is", "bot_name": "you are"}


async def _update_names(context: ToolContext, given: Arguments) -> ToolAnswer:
    cleaned = {key: " ".join(str(value).split()) for key, value in given.items()}
    names = {key: name for key, name in cleaned.items() if name}
    if not names or any(len(name) > _LONGEST for name in names.values()):
        return ToolAnswer(f"Give a name of up to {_LONGEST} characters.", is_error=True)
    await context.store.transact(
        lambda tx: tx.names.change(
            lambda known: GivenNames(
                names.get("user_name") or known.user, names.get("bot_name") or known.bot
            )
        )
    )
    said = " and ".join(f"{_WHO[key]} called {name}" for key, name in names.items())
    return ToolAnswer(f"From now on {said}.")


UPDATE_NAMES = OwnTool(
    "update_names",
    "Remember what the owner, or the bot, wants to be called.",
    arguments(user_name=text("the owner's name"), bot_name=text("the bot's name")),
    _update_names,
    where=MAIN,
    elsewhere="Names are changed in the main conversation only.",
    careful=asks("change what you or it are called"),
    prompt_line="`update_names`: when the owner says what they, or you, want to be called.",
)
