"""All tools of the agent, and what follows from their declarations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.permissions.careful import Rule, fetching, running, searching, writing
from ollim_bot.kernel.store.skill_files import SkillFolder
from ollim_bot.kernel.tools.docs import READ_DOC, SEARCH_DOCS
from ollim_bot.kernel.tools.fork_tools import ENTER_FORK, EXIT_FORK, REPORT_UPDATES, SAVE_CONTEXT
from ollim_bot.kernel.tools.message_tools import DISCORD_EMBED, PING_USER, SEND_FILE
from ollim_bot.kernel.tools.reminder_tools import (
    ADD_REMINDER,
    BREAK_DOWN,
    CANCEL_REMINDER,
    FOLLOW_UP_CHAIN,
    LIST_REMINDERS,
    SETTLE_REMINDER,
)
from ollim_bot.kernel.tools.tool_context import (
    MAIN,
    Arguments,
    BackgroundUse,
    EngineTool,
    OwnTool,
    ToolContext,
    arguments,
    text,
)
from ollim_bot.kernel.values.agent_caller import LOOKS, asks
from ollim_bot.kernel.values.jobs import Reminder
from ollim_bot.kernel.values.permissions import Pattern, beyond_main
from ollim_bot.kernel.values.ports import ToolAnswer
from ollim_bot.kernel.values.schedule import GivenNames

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


_COMMANDS = ("tasks", "cal", "gmail", "reminder", "routine", "runs", "history", "rehearse")
_LOOKING = ("doctor", "skill list", "webhook list", "help")

# The system prompt and the engine keep this order.
TOOLS: tuple[EngineTool | OwnTool, ...] = (
    EngineTool(
        "Read",
        careful=LOOKS,
        # Without the second pattern the agent could not open what the owner attaches.
        main=("Read(./**.md)", "Read(./downloads/**)"),
        background=("Read(./**.md)",),
        changes_something=False,
        prompt_line="`Read`, `Write`, `Edit`, `Glob`, `Grep`: markdown files (`.md`).",
    ),
    EngineTool("Write", main=("Write(./**.md)",), careful=writing),
    EngineTool("Edit", main=("Edit(./**.md)",), careful=writing),
    EngineTool(
        "Glob",
        careful=LOOKS,
        main=("Glob(./**.md)",),
        background=("Glob(./**.md)",),
        changes_something=False,
    ),
    EngineTool(
        "Grep",
        careful=LOOKS,
        main=("Grep(./**.md)",),
        background=("Grep(./**.md)",),
        changes_something=False,
    ),
    EngineTool(
        "Bash",
        careful=running,
        main=(
            *(f"Bash(ollim-bot {noun} *)" for noun in _COMMANDS),
            *(f"Bash(ollim-bot {command})" for command in _LOOKING),
        ),
        background=("Bash(ollim-bot help)", "Bash(ollim-bot tasks *)"),
        prompt_line=(
            "`Bash`: `ollim-bot` commands only, one per call. "
            "Pipes, `&&`, redirection and `$(...)` are refused."
        ),
    ),
    ADD_REMINDER,
    LIST_REMINDERS,
    CANCEL_REMINDER,
    FOLLOW_UP_CHAIN,
    SETTLE_REMINDER,
    BREAK_DOWN,
    DISCORD_EMBED,
    SEND_FILE,
    PING_USER,
    REPORT_UPDATES,
    ENTER_FORK,
    EXIT_FORK,
    SAVE_CONTEXT,
    UPDATE_NAMES,
    SEARCH_DOCS,
    READ_DOC,
    EngineTool(
        "WebSearch",
        careful=searching,
        main=("WebSearch",),
        changes_something=False,
        prompt_line="`WebSearch`, `WebFetch`: the web.",
    ),
    EngineTool("WebFetch", main=("WebFetch",), changes_something=False, careful=fetching),
    # What a subagent changes is counted with its own calls.
    EngineTool(
        "Agent",
        careful=LOOKS,
        main=("Agent",),
        changes_something=False,
        prompt_line=(
            "`Agent`: a subagent, for reading that would fill this conversation, such as a week of "
            "history. It knows only what you write to it; say what matters of its answer."
        ),
    ),
    # An older name of the same tool.
    EngineTool("Task", main=("Task",), changes_something=False, is_offered=False, careful=LOOKS),
    EngineTool(
        "Skill",
        careful=LOOKS,
        main=("Skill",),
        changes_something=False,
        prompt_line=(
            "`Skill`: instructions for a kind of work, kept in `skills/NAME/SKILL.md`. Write one "
            "when the owner explains a way of working that will come back."
        ),
    ),
)

OWN_TOOLS: Mapping[str, Sequence[OwnTool]] = {
    server: tuple(tool for tool in TOOLS if isinstance(tool, OwnTool) and tool.server == server)
    for server in dict.fromkeys(tool.server for tool in TOOLS if isinstance(tool, OwnTool))
}
ENGINE_TOOLS = tuple(tool for tool in TOOLS if isinstance(tool, EngineTool))


def _background_patterns(server: str, tools: Sequence[OwnTool]) -> Iterator[str]:
    usual = [tool for tool in tools if tool.background is BackgroundUse.DEFAULT_PATTERN]
    if len(usual) == len(tools):
        yield f"mcp__{server}__*"
    else:
        yield from (tool.full_name for tool in usual)


MAIN_TOOLS = (
    *(pattern for tool in ENGINE_TOOLS for pattern in tool.main),
    *(f"mcp__{server}__*" for server in OWN_TOOLS),
)
DEFAULT_BG_TOOLS = (
    *(pattern for tool in ENGINE_TOOLS for pattern in tool.background),
    *(each for server, tools in OWN_TOOLS.items() for each in _background_patterns(server, tools)),
)
TOOL_LINES = tuple(tool.prompt_line for tool in TOOLS if tool.prompt_line)

# What a call of each tool does in a careful session. It has no default: see `Careful`.
RULES: Mapping[str, Rule] = {tool.full_name: tool.careful for tool in TOOLS}

_WITHOUT_EFFECT = frozenset(tool.full_name for tool in TOOLS if not tool.changes_something)
WITHOUT_PATTERN = frozenset(
    tool.full_name
    for tools in OWN_TOOLS.values()
    for tool in tools
    if tool.background is BackgroundUse.NO_PATTERN
)


def changes_something(tool: str) -> bool:
    """Whether a call has effects that a second attempt would repeat."""
    return tool not in _WITHOUT_EFFECT


def may_use(tool: str) -> bool:
    """Whether the program's own rules let the conversation use the tool unasked."""
    return not any(beyond_main((tool,), _main_patterns()))


@cache
def _main_patterns() -> tuple[Pattern, ...]:
    return tuple(Pattern.of(text) for text in MAIN_TOOLS)


def of_conversation(paths: DataPaths, reminder: Reminder) -> Reminder:
    """The reminder with no tool, of its own or by a skill, that the conversation may not use."""
    skills, spec = SkillFolder(paths.skills).read(), reminder.spec
    kept = (each for each in spec.skills if each in skills.loaded)
    kept = (each for each in kept if all(map(may_use, skills.tools_of((each,)))))
    tools = tuple(filter(may_use, spec.allowed_tools))
    return replace(reminder, spec=replace(spec, allowed_tools=tools, skills=(*kept,)))
