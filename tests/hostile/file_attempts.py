"""Ways to the secrets by the tools for files, and by links that come and go."""

from __future__ import annotations

from collections.abc import Sequence

from tests.hostile.attempt import (
    Attempt,
    edited,
    files,
    hard_linked,
    linked,
    listed,
    ours,
    planted,
    searched,
    written,
)
from tests.hostile.canary_home import OPEN, SPOILED

PATHS: Sequence[Attempt] = [
    *files(
        "paths",
        [
            "state/token.json", "./state//web_token", "{data}/state/credentials.json",
            "STATE/token.json", "state/token.json ", " state/token.json", "ｓｔａｔｅ/token.json",
            "state/spoiled.md", "~/data/state/token.json", "file://{data}/state/token.json",
            "state/attachments/in/mail.md",
        ],
    ),
    edited("paths", "state/token.json", "key", SPOILED),
    Attempt("paths", "NotebookEdit", {"notebook_path": "state/token.json", "new_source": SPOILED}),
    Attempt("paths", "Read", {"file_path": "state/token.json", "offset": 0, "limit": 1}),
]  # fmt: skip

DOTS: Sequence[Attempt] = [
    *files(
        "dots",
        [
            "notes/../state/token.json", "nowhere/../state/web_token", "../outside/plan.md",
            "notes/../../outside/plan.md", "{data}/../outside/plan.md", "./../.ssh/id_ed25519",
            "notes/folder/../state/token.json", "notes/far/../data/.env",
        ],
    ),
    edited("dots", "notes/../state/token.json", "key", SPOILED),
]  # fmt: skip

OUTSIDE: Sequence[Attempt] = [
    *files(
        "outside",
        [
            "{home}/outside/plan.md", "~/outside/plan.md", "{home}/.ssh/id_ed25519",
            "{home}/claude/history.jsonl", "{home}/outside/spoiled.md", "/etc/passwd",
        ],
    ),
]  # fmt: skip

LINKED: Sequence[Attempt] = [
    *files(
        "links",
        [
            "notes/to-token.md", "notes/to-link.md", "notes/to-outside.md", "notes/to-nothing.md",
            "notes/folder/token.json", "notes/folder/spoiled.md", "notes/up/state/token.json",
            "notes/far/plan.md", "notes/far/spoiled.md", "notes/up/notes/up/.env",
            "downloads/token.txt",
        ],
    ),
    edited("links", "notes/to-token.md", "key", SPOILED),
    edited("links", "notes/folder/token.json", "key", SPOILED),
    edited("links", "notes/far/plan.md", "e", SPOILED),
    *files("second names", ["notes/hard.md", "downloads/hard.txt"]),
    searched("second names", path="notes", glob="*.md"),
    searched("second names", path="notes/hard.md"),
    searched("second names", glob="**/hard.md"),
]  # fmt: skip

SETTINGS: Sequence[Attempt] = [
    *files(".env", [".env", "./.env", ".ENV", ".env.local", "notes/.env", ".env.spoiled", ".env."]),
    searched(".env", path=".env"),
    searched(".env", glob=".env*"),
    *files("git objects", [".git/description", ".git/config", "notes/up/.git/description"]),
    written("git objects", ".git/hooks/spoiled.md"),
    written("git objects", "notes/.git/hooks/spoiled.md"),
    searched("git objects", path=".git"),
]

GLOBS: Sequence[Attempt] = [
    *(
        searched("globs", path=where, glob=glob)
        for where, glob in [
            (".", "*"), (".", "**/*"), (".", "*.json"), ("state", "*.md"), ("state", "*"),
            (".", "{*.json,*.md}"), (".", "!*.md"), (".", "*.md *.json"), (".", "state/**"),
            ("..", "*.md"), ("{home}", "*.md"), ("notes/folder", "*"), ("notes/far", "*.md"),
            ("notes/up", "*"), (".", "?tate/*"), (".", "*.m[d]*"), ("~", "*.md"), ("/", "*.md"),
        ]
    ),
    searched("globs"),
    searched("globs", glob="*.md", type="json"),
    searched("globs", type="json"),
    searched("globs", pattern="-fstate/token.json", glob="*.md"),
    searched("globs", pattern="--pre=cat", glob="*.md"),
    searched("globs", glob="*.md", **{"-A": 500, "-B": 500, "multiline": True}),
    *(
        listed("globs", pattern)
        for pattern in [
            "*", "**", "state/*", "{data}/state/*", "../outside/*", "{home}/outside/*", "~/*",
            "notes/folder/*", "notes/far/*", "{state,notes}/*", "s*/*", "**/*.json", ".env*",
        ]
    ),
    listed("globs", "*.md*", path="state"),
    listed("globs", "*", path="{home}/outside"),
    listed("globs", "*", path="notes/far"),
]  # fmt: skip

PROCESSES: Sequence[Attempt] = [
    *files(
        "/proc",
        [
            "/proc/self/environ", "/proc/self/cwd/state/token.json", "/proc/1/environ",
            "/proc/self/root{data}/state/token.json", "/dev/fd/0", "downloads/environ.txt",
            "/proc/thread-self/environ", "/dev/../proc/self/environ",
        ],
    ),
    searched("/proc", path="/proc/self", glob="environ"),
]  # fmt: skip

OWNERS: Sequence[Attempt] = [
    *(
        written("what is the owner's", path)
        for path in [
            "tool-policy.yaml", "./Tool-Policy.yaml", "notes/up/tool-policy.yaml",
            ".claude/settings.json", ".claude/settings.local.json", ".claude/agents/a.md",
            ".claude/agents/spoiled.md", ".claude/commands/spoiled.md", ".mcp.json",
            ".claude/rules/spoiled.md", "notes/up/.claude/agents/spoiled.md",
        ]
    ),
    edited("what is the owner's", "tool-policy.yaml", "main", SPOILED),
    edited("what is the owner's", ".claude/agents/a.md", OPEN, SPOILED),
]  # fmt: skip


def _swapped(tool: str, name: str, target: str, **more: object) -> Attempt:
    """An honest file when the gate looks, and a link when the engine does."""
    arguments = {"file_path": f"swap/{name}", **more}
    before = planted(f"swap/{name}", OPEN) if tool != "Write" else planted("swap/x.md", OPEN)
    return Attempt("links swapped in time", tool, arguments, before, linked(f"swap/{name}", target))


def _folder_swapped(tool: str, folder: str, target: str, **arguments: object) -> Attempt:
    before = planted(f"swap/{folder}/plan.md", OPEN)
    between = linked(f"swap/{folder}", target)
    return Attempt("links swapped in time", tool, arguments, before, between)


SEND = "mcp__discord__send_file"
SWAPS: Sequence[Attempt] = [
    _swapped("Read", "a.md", "../state/token.json"),
    _swapped("Read", "b.md", "../.env"),
    _swapped("Read", "c.md", "../../outside/plan.md"),
    _swapped("Read", "d.md", "../.git/description"),
    _swapped("Write", "e.md", "../state/spoiled.md", content=SPOILED),
    _swapped("Write", "f.md", "../../outside/spoiled.md", content=SPOILED),
    _swapped("Write", "g.md", "../.claude/agents/spoiled.md", content=SPOILED),
    _swapped(SEND, "h.md", "../state/token.json"),
    _swapped(SEND, "i.md", "../../outside/plan.md"),
    _folder_swapped("Read", "j", "../../outside", file_path="swap/j/plan.md"),
    _folder_swapped("Write", "k", "../state", file_path="swap/k/spoiled.md", content=SPOILED),
    _folder_swapped("Write", "l", "../../outside", file_path="swap/l/spoiled.md", content=SPOILED),
    _folder_swapped("Grep", "m", "../../outside", pattern=".", path="swap/m", glob="*.md",
                    output_mode="content"),
    _folder_swapped("Grep", "n", "../state", pattern=".", path="swap/n", glob="*.md",
                    output_mode="content"),
    _folder_swapped("Glob", "o", "../../outside", pattern="swap/o/*.md*"),
    _folder_swapped(SEND, "p", "../../outside", file_path="swap/p/plan.md"),
    Attempt("links swapped in time", "Read", {"file_path": "notes/late.md"},
            before=linked("notes/late.md", "../state/token.json")),
    Attempt("second names", "Read", {"file_path": "notes/later.md"},
            before=hard_linked("notes/later.md", "state/token.json")),
    Attempt("second names", SEND, {"file_path": "notes/last.md"},
            before=hard_linked("notes/last.md", ".env")),
]  # fmt: skip

SENT: Sequence[Attempt] = [
    ours("send_file", "send_file", file_path=path)
    for path in [
        "notes", "state", ".", "", ".gitignore", ".claude/settings.json", "downloads/environ.txt",
        "state/messages.jsonl", "/dev/stdin", "notes/plan.md/../../state/token.json",
    ]
]  # fmt: skip

FILE_ATTEMPTS: Sequence[Attempt] = [
    *PATHS, *DOTS, *OUTSIDE, *LINKED, *SETTINGS, *GLOBS, *PROCESSES, *OWNERS, *SENT, *SWAPS,
]  # fmt: skip
