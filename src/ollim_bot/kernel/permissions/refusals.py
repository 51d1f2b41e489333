"""Refusals of tool calls: each says why, and what to do instead."""

from __future__ import annotations

from collections.abc import Sequence

from ollim_bot.kernel.values.tool_patterns import server_of

UNCLEAR_PATH = (
    "This path can be read in more than one way. Write it plainly, such as `notes/plan.md`: "
    "no `~`, no `..` in a pattern, no line breaks, no spaces at its ends, 4096 characters at most."
)
REACHES_TOO_FAR = (
    "This would reach protected files too. Name one folder, such as `routines`, or search with the "
    "glob `*.md`."
)
UNCLEAR_COMMAND = (
    "Only one plain command at a time is run, with each name written out: no `;`, `&`, `|`, `<`, "
    "`>`, `$`, `*`, `?`, `~`, backticks, backslashes, brackets, braces or line breaks. Put a text "
    "with such characters into single quotes."
)
TOO_MUCH = "This command names too many files to be looked through, or one too long. Name fewer."
TOO_MUCH_GIVEN = (
    "These arguments are too long or too deep to be looked through, or name too many paths. Give "
    "the tool less at a time."
)
STAYS_HERE = "Commands always run in the data directory. Give the path to the command itself."

NO_HOOKS = (
    "A skill has no hooks: their commands would be run unasked. Write plain fields such as "
    "`name: mail`, without `hooks`."
)
NO_WEB_ADDRESS = (
    "This is no address of a web page. Write it out, such as `https://example.com/page`."
)
NO_SIGN_IN = "An address with a name or a password in it is not fetched. Leave them out."
OF_TOOL_SERVER = (
    "A tool server of the owner works with this place, so it is protected. Write a `.md` file, or "
    "write elsewhere."
)
SAME_FOLDER = "A subagent works in the same folder as you. Leave `isolation` out."
ONE_BELOW_ANOTHER = (
    "A subagent starts no other. Do it yourself, or say in your answer what is left."
)

_INSTEAD = {
    "state/": "The `ollim-bot` commands show and change what is in it.",
    ".env": "Only the owner reads and changes the settings in it.",
    ".git/": "The history of the files is kept by the program.",
    ".git*": "Only the owner changes what is kept in the history, and how.",
    ".claude/": "Skills are written to `skills/`; the rest of it is for the owner.",
    ".mcp.json": "Only the owner gives the agent further servers.",
    "mcp.json": "Only the owner gives the agent further servers.",
    "skills/skills.lock": "The program keeps it.",
    "tool-policy.yaml": "Only the owner changes what is allowed.",
}


def protected(name: str) -> str:
    return f"{name} is protected. {_INSTEAD.get(name, '')}".rstrip()


def outside(path: str) -> str:
    return f"`{path}` is outside the data directory. Use a path below it, such as `notes/plan.md`."


def unknown_subagent(name: str, known: Sequence[str]) -> str:
    instead = f"There are {_listed(known)}" if known else "Do it yourself"
    return f"There is no subagent `{name}`. {instead}."


def only_in_background(name: str) -> str:
    return f"`{name}` is for background runs only. Here, ask the owner."


def not_for_subagent(tool: str, name: str, alternatives: Sequence[str]) -> str:
    return (
        f"`{tool}` with these arguments is not for `{name}`. What it may use: "
        f"{_listed(alternatives)}."
    )


def excess_tool(skill: str, tool: str) -> str:
    return (
        f"the skill {skill} would give it `{tool}`, which the conversation itself may not use. If "
        "this job should have it, add it to `allowed-tools` in the job's file."
    )


def not_in_background(tool: str) -> str:
    instead = "Go on without it"
    # A pattern of the owner would not help: our own tools decide by themselves where they work.
    if not tool.startswith("mcp__discord__"):
        instead += "; the owner can allow it, by `allowed-tools` in the file of the job"
    if server_of(tool):
        instead += f", where `{tool}` has to stand: a pattern with `*` allows no tool of a server"
    return f"`{tool}` is not available in background runs. {instead}."


def not_so_in_background(tool: str, alternatives: Sequence[str]) -> str:
    return (
        f"`{tool}` is not available in background runs with these arguments. "
        f"What is available: {_listed(alternatives)}."
    )


def missing_for_subagent(name: str, pattern: str) -> str:
    return (
        f"`{name}` may do no more than the run that started it. For this, the job needs "
        f"`{pattern}` in its `allowed-tools`; say so in your answer."
    )


def not_allowed(tool: str, alternatives: Sequence[str]) -> str:
    if not alternatives:
        return f"`{tool}` is not allowed here. Only the owner can allow it, in tool-policy.yaml."
    listed = _listed(alternatives)
    return f"`{tool}` is not allowed here with these arguments. What is allowed: {listed}."


def unknown_address(host: str) -> str:
    return (
        f"`{host}` was not found, so it cannot be told what would be fetched. Check the spelling, "
        "or try it again later."
    )


def private_address(host: str) -> str:
    return f"`{host}` is on this machine or its network, and is not fetched. Use a public address."


def unfit_file(path: str, reason: str) -> str:
    return f"{path} is {reason}, so it is not changed. Write another file."


def _listed(patterns: Sequence[str]) -> str:
    return ", ".join(f"`{pattern}`" for pattern in patterns)
