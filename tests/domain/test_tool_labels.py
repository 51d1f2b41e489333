"""A tool's label is one short line that says which tool, and what about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.domain.activity import tool_label

LONG = "x" * 200


@pytest.mark.parametrize(
    ("tool", "arguments", "label"),
    [
        ("Read", {"file_path": "/home/ada/notes/today.md"}, "Read(notes/today.md)"),
        ("Read", {"file_path": "today.md"}, "Read(today.md)"),
        ("Read", {"file_path": "/"}, "Read(/)"),
        ("Edit", {"file_path": "a/b.md", "old_string": "x", "new_string": "y"}, "Edit(a/b.md)"),
        ("NotebookEdit", {"notebook_path": "/a/b/c.ipynb"}, "NotebookEdit(b/c.ipynb)"),
        ("Bash", {"command": "ls -la"}, "Bash(ls -la)"),
        ("Bash", {"command": "ls\nrm -r x", "description": "looks"}, "Bash(ls)"),
        ("Bash", {"command": "\n\n  echo hi  "}, "Bash(echo hi)"),
        ("Bash", {"command": LONG}, f"Bash({'x' * 49}…)"),
        ("Bash", {"command": "x" * 50}, f"Bash({'x' * 50})"),
        ("Grep", {"pattern": "TODO", "path": "/home/ada"}, "Grep(TODO)"),
        ("Glob", {"pattern": "**/*.md"}, "Glob(**/*.md)"),
        ("LS", {"path": "/home/ada/notes"}, "LS(ada/notes)"),
        ("WebFetch", {"url": "https://e.org/x", "prompt": "p"}, "WebFetch(https://e.org/x)"),
        ("WebSearch", {"query": "weather"}, "WebSearch(weather)"),
        ("Agent", {"description": "look about", "prompt": LONG}, "Agent(look about)"),
        ("Skill", {"skill": "cooking"}, "Skill(cooking)"),
        ("mcp__discord__ping_user", {"message": "hello"}, "ping_user"),
        ("mcp__my_server__do__it", {}, "my_server: do__it"),
        ("mcp__odd", {}, "mcp__odd"),
        ("TodoWrite", {"todos": []}, "TodoWrite"),
        ("Read", {}, "Read"),
        ("Read", {"file_path": ""}, "Read"),
        ("Read", {"file_path": None, "path": "a/b"}, "Read(a/b)"),
        ("Read", {"file_path": ["a"]}, "Read"),
        ("Bash", {"command": "a\x1b[31m\u202eb"}, "Bash(a [31m b)"),
        (LONG, {"command": LONG}, f"{'x' * 59}…({'x' * 49}…)"),
    ],
)
def test_the_argument_that_says_most_is_shown_shortly(
    tool: str, arguments: dict[str, object], label: str
) -> None:
    assert tool_label(tool, arguments) == label


NAMES = st.sampled_from(["file_path", "command", "pattern", "url", "path", "query", "description"])
VALUES = st.text() | st.integers() | st.none() | st.lists(st.text()) | st.binary()


@given(st.text(), st.dictionaries(NAMES | st.text(), VALUES))
def test_whatever_the_model_sends_the_label_is_one_short_printable_line(
    tool: str, arguments: dict[str, object]
) -> None:
    label = tool_label(tool, arguments)
    assert len(label) <= 112
    assert label.isprintable()
    assert len(label.splitlines()) <= 1
