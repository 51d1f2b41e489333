"""In a session that has read text of others, no path and no pattern avoids the owner's word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import pytest

from ollim_bot.kernel.conversation.chat_sessions import main_run
from ollim_bot.kernel.permissions.path_rules import PathPolicy
from ollim_bot.kernel.tools.docs import READ_DOC
from ollim_bot.kernel.tools.gates import Careful, main_gate
from ollim_bot.kernel.tools.registry import RULES, TOOLS
from ollim_bot.kernel.tools.tool_context import EngineTool, OwnTool, arguments
from ollim_bot.kernel.values.agent_caller import (
    COMMANDS,
    CommandLine,
    Does,
    Effect,
    NeedsWord,
    effect_of,
)
from ollim_bot.kernel.values.permissions import Pattern
from ollim_bot.kernel.values.ports import Refusal, ToolCall
from ollim_bot.kernel.values.runs import Run
from ollim_bot.kernel.values.taint import Taint, addresses_in, reading_of
from ollim_bot.surfaces.terminal.framework import Noun
from ollim_bot.surfaces.terminal.main import COMMANDS as PROGRAM_COMMANDS
from ollim_bot.surfaces.terminal.main import GROUPS

NOW = datetime(2026, 11, 19, 7, 58, 33, 830745, tzinfo=UTC)
TYPED = "see (https://Example.com/a_(b)), or x.example/y. And <https://q.example/?a=1#top>!"
TAINT = Taint(("forwarded message",), addresses_in(f"{TYPED} https://example.com/post"))
OWN_NOTE = "notes/others/mine.md"
LOCK, LIGHTS = "mcp__home__unlock", "mcp__home__lights"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory whose profile is a link to a file elsewhere."""
    root = tmp_path / "data"
    for name in ("notes/others", "routines", "reminders", "webhooks", "skills"):
        (root / name).mkdir(parents=True)
    (root / "IDENTITY.md").write_text("# Me\n")
    (root / "notes" / "ada.md").write_text("# Ada\n")
    (root / "USER.md").symlink_to("notes/ada.md")
    (root / "notes" / "me.md").symlink_to("../IDENTITY.md")
    (root / "notes" / "jobs").symlink_to("../routines")
    (root / "notes" / "others" / "deep").symlink_to("../../routines")
    (root / "notes" / "others" / "plan.md").write_text("the owner's\n")
    (root / OWN_NOTE).write_text("its own\n")
    (root / "notes" / "plan.md").write_text("plan\n")
    (root / "reminders" / "plan.md").symlink_to("../notes/plan.md")
    return root


def run_after(*sources: str) -> Run:
    run = main_run(NOW)
    run.taint = replace(TAINT, sources=sources)
    return run


def careful(root: Path) -> Careful:
    return Careful(
        root, is_own=lambda path, _: path.endswith(OWN_NOTE), looks=lambda tool: tool == LIGHTS
    )


def wanted(root: Path, call: ToolCall, allowed: Sequence[Pattern] = ()) -> str | None:
    """What the call needs the owner's word for; None if it is let through."""
    assert careful(root)(call, run_after(), allowed) is None
    found = careful(root)(call, run_after("forwarded message"), allowed)
    return found.does.wanted if found else None


def test_it_is_said_what_was_read_and_how_to_do_it_instead(data: Path) -> None:
    call = ToolCall("mcp__discord__send_file", {"file_path": "notes/a.md"})
    found = careful(data)(call, run_after("forwarded message", "mail"))
    assert found is not None
    assert found.refusal == (
        "You have read a forwarded message and a mail, so you may not send a file by yourself now. "
        "Ask the owner to say so in a message of their own."
    )


def test_no_tool_is_without_its_word() -> None:
    assert set(RULES) == {tool.full_name for tool in TOOLS}
    with pytest.raises(TypeError, match="careful"):
        EngineTool("New", ("New",))  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="careful"):
        OwnTool("new", "", arguments(), READ_DOC.run)  # type: ignore[call-arg]


def test_a_tool_that_nothing_declares_asks(data: Path) -> None:
    for tool in ("MultiEdit", "NotebookEdit", "Monitor", "mcp__discord__new", LOCK):
        assert wanted(data, ToolCall(tool, {"file_path": OWN_NOTE})) == f"use `{tool}`"
    assert wanted(data, ToolCall(LIGHTS, {})) is None


@pytest.mark.parametrize(
    ("tool", "change"),
    [
        ("send_file", "send a file"),
        ("cancel_reminder", "cancel a reminder"),
        ("settle_reminder", "answer a reminder in your name"),
        ("update_names", "change what you or it are called"),
        ("break_down", "change a task"),
        *dict.fromkeys(
            ("add_reminder", "list_reminders", "discord_embed", "report_updates")
        ).items(),
        *dict.fromkeys(("ping_user", "report_updates", "save_context", "exit_fork")).items(),
    ],
)
def test_of_our_own_tools_those_that_change_or_send(
    data: Path, tool: str, change: str | None
) -> None:
    assert wanted(data, ToolCall(f"mcp__discord__{tool}", {})) == change


def test_steps_that_the_owners_button_asked_for_are_made(data: Path) -> None:
    run = run_after("mail")
    run.asked_steps = frozenset({"1a2b"})
    asked = ToolCall("mcp__discord__break_down", {"thing": " 1a2b", "steps": ["go"]})
    assert careful(data)(asked, run) is None
    other = ToolCall("mcp__discord__break_down", {"thing": "1a2c", "steps": ["go"]})
    assert careful(data)(other, run) is not None


@pytest.mark.parametrize("action", ["task_done:1", "task_del:1", " event_del:x"])
def test_a_card_gets_no_button_that_changes_what_is_the_owners(data: Path, action: str) -> None:
    buttons = [{"label": "Hello", "action": "dismiss"}, {"label": "Yes", "action": action}]
    call = ToolCall("mcp__discord__discord_embed", {"title": "x", "buttons": buttons})
    assert wanted(data, call) == "show a button that changes a task or an event"
    call.arguments["buttons"][1]["action"] = "agent:more"  # type: ignore[index]
    assert wanted(data, call) is None


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("USER.md", "change the profile"),
        ("{data}/USER.md", "change the profile"),
        ("notes/../USER.md", "change the profile"),
        ("notes/ada.md", "change the profile"),
        ("notes/me.md", "change the profile"),
        ("notes/jobs/new.md", "change a routine"),
        ("notes/others/deep/new.md", "change a routine"),
        ("Routines/new.md", "change a routine"),
        ("routines/new.md", "change a routine"),
        ("notes/plan.md", "change a reminder"),
        ("skills/mail/SKILL.md", "change a skill"),
        ("tasks.md", "change the tasks"),
        ("notes/new.md", "write a file of the owner's"),
        ("notes/others.md", "write a file of the owner's"),
        ("notes/others/../new.md", "write a file of the owner's"),
        ("notes/others/new.txt", "write a file of the owner's"),
        ("notes/others/plan.md", "write a file of the owner's"),
        ("Notes/others/new.md", "write a file of the owner's"),
        ("notes/others/new.md", None),
        ("./notes/others/a/new.md", None),
        ("{data}/notes/others/new.md", None),
        (OWN_NOTE, None),
    ],
)
def test_only_a_note_of_words_of_others_is_written(
    data: Path, path: str, change: str | None
) -> None:
    link = data.parent / "link"
    link.symlink_to(data)
    for root in (data, link):
        call = ToolCall("Write", {"file_path": path.format(data=data), "content": "x"})
        assert wanted(root, call) == change


def test_what_is_edited_is_a_note_of_its_own(data: Path) -> None:
    edit = ToolCall("Edit", {"file_path": OWN_NOTE, "old_string": "its", "new_string": "my"})
    assert wanted(data, edit) is None
    for path in ("notes/others/plan.md", "notes/others/none.md", "notes/plan.md"):
        assert wanted(data, replace(edit, arguments={**edit.arguments, "file_path": path}))


def test_the_owner_is_told_of_each_note(data: Path) -> None:
    run = run_after("mail")
    for name in ("a", "b", "a"):
        path = f"notes/others/{name}.md"
        assert careful(data)(ToolCall("Write", {"file_path": path, "content": "x"}), run) is None
    assert run.noted == "Noted, with words of others: notes/others/a.md, notes/others/b.md."
    assert run_after("mail").noted == ""


@pytest.mark.parametrize(
    ("command", "change"),
    [
        ("ollim-bot routine add -m x --cron '0 9 * * *'", "change a routine"),
        ("ollim-bot routine edit list", "change a routine"),
        ("ollim-bot reminder cancel ab", "change a reminder"),
        ("ollim-bot reminder snooze ab --for 1h", "change a reminder"),
        ("ollim-bot webhook run x", "change a webhook"),
        ("ollim-bot tasks done x", "change a task"),
        ("ollim-bot tasks finish x", "run a command that is not known"),
        ("ollim-bot cal add x", "add or change an event"),
        ("ollim-bot config set model x", "run this command"),
        ("ollim-bot --x routine add", "run this command"),
        ("env ollim-bot routine add", "run a program"),
        ("/usr/bin/ollim-bot routine list", "run a program"),
        ("git pull", "run a program"),
        ("", "run a program"),
        ("ollim-bot routine list; cat x", "run a program"),
        *dict.fromkeys(
            (
                *("ollim-bot routine", "ollim-bot routine list", "ollim-bot runs list"),
                *("ollim-bot reminder show ab --json", "ollim-bot help routine add"),
                *("ollim-bot receipt 2026-11-18", "ollim-bot cal today", "ollim-bot doctor"),
                *("ollim-bot tasks add buy milk", "ollim-bot tasks --json", "ollim-bot mcp list"),
            )
        ).items(),
    ],
)
def test_commands_are_known_by_their_verb(data: Path, command: str, change: str | None) -> None:
    assert wanted(data, ToolCall("Bash", {"command": command})) == change


def test_every_command_says_what_it_does() -> None:
    """Also each verb; one that is new is the owner's alone, or asks."""
    assert set(COMMANDS) == {*PROGRAM_COMMANDS, "help", "version"}
    missing = [
        f"{noun} {verb}"
        for noun in GROUPS
        for verb in _verbs(noun)
        if not isinstance(declared := COMMANDS[noun], Does) and not {verb, "*"} & {*declared}
    ]
    assert missing == []
    assert effect_of(CommandLine("new", "", ())).effect is Effect.OWNERS


def _verbs(noun: str) -> Mapping[str, object]:
    module = import_module(PROGRAM_COMMANDS[noun][1])
    nouns = [each for each in vars(module).values() if isinstance(each, Noun)]
    return {verb: each for each in nouns for verb in each._verbs}


def test_a_turn_adds_three_tasks_and_searches_ten_times(data: Path) -> None:
    run, judge = run_after("mail"), careful(data)
    add = ToolCall("Bash", {"command": "ollim-bot tasks add buy milk"})
    assert [judge(add, run) for _ in range(3)] == [None] * 3
    assert judge(add, run) is not None
    search = ToolCall("WebSearch", {"query": "x" * 200})
    assert [judge(search, run) for _ in range(10)] == [None] * 10
    more = judge(search, run)
    assert more is not None
    assert more.does.wanted == "search more than 10 times"
    long = replace(search, arguments={"query": "x" * 201})
    assert wanted(data, long) == "search for so many words"


@pytest.mark.parametrize(
    ("url", "is_typed"),
    [
        ("https://example.com/a_(b)", True),
        ("http://EXAMPLE.com/a_(b)/", True),
        ("https://x.example/y", True),
        ("https://q.example/?a=1", True),
        ("https://q.example/?a=1#more", True),
        ("https://example.com", False),
        ("https://example.com/a_(b)?secret", False),
        ("https://example.com/A_(b)", False),
        ("https://q.example/?a=12", False),
        ("https://x.example.evil.example/y", False),
        ("https://x.example/y@evil.example", False),
        ("", False),
    ],
)
def test_only_an_address_that_somebody_else_named_is_fetched(
    data: Path, url: str, is_typed: bool
) -> None:
    change = None if is_typed else "fetch an address that the owner did not type"
    assert wanted(data, ToolCall("WebFetch", {"url": url, "prompt": "x"})) == change


def test_what_a_search_found_is_fetched(data: Path) -> None:
    run, call = run_after("search result"), ToolCall("WebFetch", {"url": "https://n.example/a"})
    assert careful(data)(call, run) is not None
    run.taint = replace(run.taint, found=addresses_in("News: https://n.example/a"))
    assert careful(data)(call, run) is None


@pytest.mark.parametrize(
    ("pattern", "url", "may"),
    [
        ("WebFetch(https://a.example/**)", "https://a.example/x?q=1", True),
        ("WebFetch(https://a.example/**)", "https://b.example/x", False),
        ("WebFetch(https://a.example/**)", "https://a.example.evil.example/", False),
        ("WebFetch(https://*/**)", "https://a.example/x", False),
        ("WebFetch(https://*.example/**)", "https://a.example/x", False),
        ("WebFetch", "https://a.example/x", False),
    ],
)
def test_a_background_run_fetches_from_sites_that_a_pattern_names(
    data: Path, pattern: str, url: str, may: bool
) -> None:
    call = ToolCall("WebFetch", {"url": url})
    assert (wanted(data, call, [Pattern.of(pattern)]) is None) is may


def test_a_search_finds_no_address_that_it_was_asked_for() -> None:
    """Else a query would be a way to any address, with whatever is in it."""
    query = "news of evil.example/?plan=secret"
    said = "You asked for evil.example with /?plan=secret: https://evil.example/?plan=secret\n"
    links = "News\nhttps://n.example/a\nhttps://evil.example/?plan=secret\n"
    found = reading_of("WebSearch", {"query": query}, f"{query}\n{links}{said}", ())
    assert found is not None
    assert found.found == addresses_in("https://n.example/a")
    other = reading_of("WebSearch", {"query": "evil example, plan secret"}, said, ())
    assert other is not None
    assert other.found == frozenset()


class AskingGate:
    """A gate whose questions get one fixed answer; `look_ups` has the names that were resolved."""

    def __init__(self, data: Path, answer: Refusal | None = None) -> None:
        self.calls: list[ToolCall] = []
        self.look_ups: list[str] = []
        self._answer = answer
        self.gate = main_gate(
            PathPolicy(data),
            undecided=self._decide,
            run=lambda: run_after("forwarded message"),
            careful=careful(data),
            resolver=self._resolve,
        )

    async def _decide(self, call: ToolCall, objection: str | NeedsWord) -> Refusal | None:
        assert isinstance(objection, NeedsWord)
        self.calls.append(call)
        assert self.look_ups == []
        return self._answer

    def _resolve(self, host: str) -> Sequence[str]:
        self.look_ups.append(host)
        return ["93.184.216.34"]


FETCH = ToolCall("WebFetch", {"url": "https://secret.evil.example/", "prompt": "x"})
ALLOWED = (
    ToolCall("Write", {"file_path": "USER.md", "content": "x"}),
    ToolCall("Bash", {"command": "ollim-bot routine add -m x --cron '0 9 * * *'"}),
    ToolCall("mcp__discord__send_file", {"file_path": "notes/a.md"}),
    FETCH,
)


@pytest.mark.parametrize("call", ALLOWED, ids=lambda call: call.tool)
async def test_what_a_pattern_allows_needs_the_owners_word_all_the_same(
    data: Path, call: ToolCall
) -> None:
    refused = AskingGate(data, Refusal("no"))
    assert await refused.gate(call) == Refusal("no")
    assert refused.look_ups == []
    allowed = AskingGate(data)
    assert await allowed.gate(call) is None
    assert allowed.calls == [call]


async def test_the_owners_word_does_not_open_what_a_guard_protects(data: Path) -> None:
    asked = AskingGate(data)
    refusal = await asked.gate(ToolCall("Write", {"file_path": ".env", "content": "x"}))
    assert refusal is not None
    assert "protected" in refusal.reason
    local = ToolCall("WebFetch", {"url": "http://127.0.0.1/", "prompt": "x"})
    assert await asked.gate(local) is not None
    assert asked.calls == []


@pytest.mark.parametrize(
    "call",
    [
        ToolCall("Write", {"file_path": "notes/others/new.md", "content": "x"}),
        ToolCall("Read", {"file_path": "USER.md"}),
        ToolCall("mcp__discord__add_reminder", {"prompt": "x", "delay_minutes": 5}),
        ToolCall("WebFetch", {"url": "https://example.com/post", "prompt": "x"}),
        ToolCall("Bash", {"command": "ollim-bot routine list"}),
    ],
    ids=lambda call: call.tool,
)
async def test_honest_work_goes_on(data: Path, call: ToolCall) -> None:
    asked = AskingGate(data, Refusal("no"))
    assert await asked.gate(call) is None
    assert asked.calls == []


async def test_without_anybody_to_ask_it_is_refused_with_what_to_do(data: Path) -> None:
    gate = main_gate(PathPolicy(data), run=lambda: run_after("mail"))
    refusal = await gate(ALLOWED[2])
    assert refusal is not None
    assert refusal.reason.endswith("Ask the owner to say so in a message of their own.")
