"""The gate of the main session lets through what the policy allows and no guard objects to."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from tests.kernel.tools.home_scene import HomeScene

from ollim_bot.kernel.permissions.path_rules import PathPolicy
from ollim_bot.kernel.tools.gates import main_gate
from ollim_bot.kernel.tools.guards import SubagentGuard
from ollim_bot.kernel.values.agent_caller import NeedsWord
from ollim_bot.kernel.values.permissions import Pattern
from ollim_bot.kernel.values.ports import Refusal, ToolCall
from ollim_bot.kernel.values.runs import Subagent, Subagents

SKILL = "---\nname: mail\ndescription: Reads mail.\n---\nRead it.\n"


def known(_: str) -> Sequence[str]:
    return ["93.184.215.14"]


async def refused(path_policy: PathPolicy, tool: str, /, **arguments: object) -> str:
    refusal = await main_gate(path_policy, resolver=known)(ToolCall(tool, arguments))
    return refusal.reason if refusal else ""


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Read", {"file_path": "note.md"}),
        ("Read", {"file_path": "spec.md"}),
        ("Write", {"file_path": "notes/new.md", "content": "x"}),
        ("Edit", {"file_path": "routines/daily.md", "old_string": "a", "new_string": "b"}),
        ("Glob", {"pattern": "**/*.md"}),
        ("Grep", {"pattern": "x", "glob": "*.md"}),
        ("Bash", {"command": "ollim-bot reminder list"}),
        ("Bash", {"command": "ollim-bot routine add -m 'x; y' --cron '0 9 * * *'"}),
        ("Bash", {"command": "ollim-bot help"}),
        ("WebFetch", {"url": "https://example.com/", "prompt": "x"}),
        ("WebSearch", {"query": "x"}),
        ("Skill", {"skill": "mail"}),
        ("mcp__discord__add_reminder", {"prompt": "x"}),
        ("mcp__docs__search_docs", {"query": "x"}),
    ],
)
async def test_what_the_main_session_is_for_passes(
    home: HomeScene, path_policy: PathPolicy, tool: str, arguments: dict[str, object]
) -> None:
    (home.data / "skills/mail").mkdir(parents=True)
    (home.data / "skills/mail/SKILL.md").write_text(SKILL)
    assert await refused(path_policy, tool, **arguments) == ""


@pytest.mark.same_fixtures
@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("Read", {"file_path": "state/token.json"}, "state/ is protected."),
        ("Read", {"file_path": "/etc/passwd"}, "outside the data directory"),
        ("Read", {"file_path": "notes.txt"}, "allowed: `Read(./**.md)`, `Read(./downloads/**)`."),
        ("Write", {"file_path": "notes/x.py"}, "allowed: `Write(./**.md)`."),
        ("Write", {"file_path": ".claude/agents/x.md"}, ".claude/ is protected."),
        ("Grep", {"pattern": "x"}, "protected files"),
        ("Grep", {"pattern": "x", "path": "routines"}, "allowed: `Grep(./**.md)`."),
        ("Bash", {"command": "ls note.md"}, "`Bash(ollim-bot reminder *)`"),
        ("Bash", {"command": "ollim-bot config list"}, "`Bash` is not allowed here"),
        ("Bash", {"command": "ollim-bot config set x y"}, "is for the owner alone"),
        ("Bash", {"command": "ollim-bot help; ls"}, "one plain command"),
        ("WebFetch", {"url": "http://localhost:8421"}, "on this machine"),
        ("TodoWrite", {}, "`TodoWrite` is not allowed here."),
        ("mcp__other__x", {}, "`mcp__other__x` is not allowed here."),
        ("MultiEdit", {"file_path": "note.md"}, "`MultiEdit` is not allowed here."),
    ],
)
async def test_a_refusal_says_why_and_what_to_do(
    path_policy: PathPolicy, tool: str, arguments: dict[str, object], words: str
) -> None:
    assert words in await refused(path_policy, tool, **arguments)


async def test_a_change_of_the_policy_counts_at_once(path_policy: PathPolicy) -> None:
    allowed = [Pattern.of("WebSearch")]
    gate = main_gate(path_policy, allowed=lambda: allowed)
    assert await gate(ToolCall("TodoWrite", {})) is not None
    allowed.append(Pattern.of("TodoWrite"))
    assert await gate(ToolCall("TodoWrite", {})) is None


async def test_a_data_directory_behind_a_link_has_the_same_paths(home: HomeScene) -> None:
    (home.root / "linked").symlink_to("data")
    gate = main_gate(PathPolicy(home.root / "linked"))
    for place in (home.data, home.root / "linked"):
        assert await gate(ToolCall("Read", {"file_path": str(place / "note.md")})) is None


async def test_nothing_waits_for_the_disk_or_the_network(path_policy: PathPolicy) -> None:
    """The guards run in another thread, not on the event loop."""
    threads: list[int] = []

    def resolver(_: str) -> Sequence[str]:
        threads.append(threading.get_ident())
        return known("")

    gate = main_gate(path_policy, resolver=resolver)
    assert await gate(ToolCall("WebFetch", {"url": "https://example.com/"})) is None
    assert threads != [threading.get_ident()]


GUARDED: list[tuple[str, dict[str, object]]] = [
    ("Read", {"file_path": "state/token.json"}),
    ("Write", {"file_path": "/etc/passwd", "content": "x"}),
    ("Edit", {"file_path": "tool-policy.yaml", "old_string": "a", "new_string": "b"}),
    ("Bash", {"command": "cat .env"}),
    ("Bash", {"command": "git status; ls"}),
    ("Bash", {"command": "cd notes"}),
    ("WebFetch", {"url": "http://127.0.0.1"}),
    ("LS", {"path": "state"}),
    ("Grep", {"pattern": "x"}),
    ("Glob", {"pattern": "**/*"}),
]
WIDE = ("Read", "Write", "Edit", "LS", "Grep", "Glob", "WebFetch")


class RecordingDecider:
    """Gives the same decision on every call, and records the calls."""

    def __init__(self, says: Refusal | None = None) -> None:
        self.asked: list[tuple[ToolCall, str | NeedsWord]] = []
        self.says = says

    async def decide(self, call: ToolCall, objection: str | NeedsWord) -> Refusal | None:
        self.asked.append((call, objection))
        return self.says


def nothing() -> Sequence[Pattern]:
    return ()


@pytest.mark.same_fixtures
@pytest.mark.parametrize(("tool", "arguments"), GUARDED)
async def test_no_pattern_and_nobody_can_allow_what_a_guard_objects_to(
    path_policy: PathPolicy, tool: str, arguments: dict[str, object]
) -> None:
    def wide() -> Sequence[Pattern]:
        return [Pattern.of(name) for name in (*WIDE, "Bash(cat *)", "Bash(git *)", "Bash(cd *)")]

    yes = RecordingDecider()
    for gate in (
        main_gate(path_policy, allowed=nothing, undecided=yes.decide, resolver=known),
        main_gate(path_policy, allowed=wide, resolver=known),
        main_gate(path_policy, granted=wide, resolver=known),
    ):
        assert await gate(ToolCall(tool, arguments)) is not None
    assert yes.asked == []
    gate = main_gate(path_policy, allowed=wide)
    assert await gate(ToolCall("Bash", {"command": "cat note.md"})) is None
    assert await gate(ToolCall("Grep", {"pattern": "x", "path": "notes"})) is None


async def test_what_is_granted_passes_beside_what_the_policy_allows(
    path_policy: PathPolicy,
) -> None:
    no = RecordingDecider(Refusal("no"))
    granted = [Pattern.of("Write(./notes/**)")]
    gate = main_gate(path_policy, granted=lambda: granted, undecided=no.decide)
    assert await gate(ToolCall("Write", {"file_path": "notes/x.py"})) is None
    assert await gate(ToolCall("Write", {"file_path": "note.md"})) is None
    assert no.asked == []
    granted.clear()
    assert await gate(ToolCall("Write", {"file_path": "notes/x.py"})) == Refusal("no")


@pytest.mark.parametrize("says", [None, Refusal("The owner said no.")])
async def test_what_no_pattern_allows_is_decided_elsewhere(
    path_policy: PathPolicy, says: Refusal | None
) -> None:
    decider = RecordingDecider(says)
    helper = Subagents({"helper": Subagent("helper", "Helps.", "You help.")})
    gate = main_gate(path_policy, undecided=decider.decide, subagents=SubagentGuard(lambda: helper))
    for subagent in ("", "helper"):
        call = ToolCall("Write", {"file_path": "notes/x.py"}, subagent)
        assert await gate(call) == says
        asked, objection = decider.asked[-1]
        assert asked == call
        assert "allowed: `Write(./**.md)`" in objection


async def test_what_changed_while_somebody_decided_is_seen(home: HomeScene) -> None:
    """A folder that became a link to what is protected."""
    new = home.data / "new"
    new.mkdir()

    async def slow_yes(_: ToolCall, __: str | NeedsWord) -> Refusal | None:
        new.rmdir()
        new.symlink_to("state")
        return None

    gate = main_gate(PathPolicy(home.data), undecided=slow_yes)
    refusal = await gate(ToolCall("Read", {"file_path": "new/token.json"}))
    assert refusal is not None
    assert "state/ is protected." in refusal.reason


async def test_no_name_is_looked_up_before_the_call_is_wanted(path_policy: PathPolicy) -> None:
    """A lookup sends the name to a DNS server, so that a name could carry data out."""
    looked_up: list[str] = []

    def resolver(host: str) -> Sequence[str]:
        looked_up.append(host)
        return ["10.0.0.1"]

    call = ToolCall("WebFetch", {"url": "https://words.example.com/"})
    no, yes = RecordingDecider(Refusal("no")), RecordingDecider()
    refusing = main_gate(path_policy, allowed=nothing, undecided=no.decide, resolver=resolver)
    assert await refusing(call) == Refusal("no")
    assert looked_up == []

    asking = main_gate(path_policy, allowed=nothing, undecided=yes.decide, resolver=resolver)
    # Nor is a name that leads home fetched where a pattern allows it.
    for gate in (asking, main_gate(path_policy, resolver=resolver)):
        refusal = await gate(call)
        assert refusal is not None
        assert "on this machine or its network" in refusal.reason
    assert looked_up == ["words.example.com"] * 2
