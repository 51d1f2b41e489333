"""A data directory with secrets in it, and with links that lead to them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SECRET = "hunter2"
OPEN = "open to the agent"

SECRET_FILES = (
    "data/state/token.json",
    "data/state/deep/web_token",
    "data/.env",
    "data/.env.local",
    "data/.git/config",
    "outside.md",
    "elsewhere/plan.md",
)
OPEN_FILES = (
    "data/note.md",
    "data/notes/plan.md",
    "data/notes/state/old.md",
    "data/routines/daily.md",
    "data/.claude/agents/guide.md",
    "data/tool-policy.yaml",
    "texts/spec.md",
)
LINKS = {
    "data/to-token.md": "state/token.json",
    "data/to-link.md": "to-token.md",
    "data/to-outside.md": "../outside.md",
    "data/to-nothing.md": "state/new.md",
    "data/folder": "state",
    "data/home": "..",
    "data/into": "notes/state",
    "data/notes/up": "..",
    "data/notes/far": "../../elsewhere",
    "data/loop.md": "loop.md",
    "data/spec.md": "../texts/spec.md",
    "data/.claude/skills": "../notes",
}


@dataclass(frozen=True)
class House:
    home: Path

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def texts(self) -> Path:
        return self.home / "texts"

    def spelled(self, text: str) -> str:
        """With the places of this house in it."""
        return text.replace("{data}", str(self.data)).replace("{home}", str(self.home))


def furnished(home: Path) -> House:
    for names, content in ((SECRET_FILES, SECRET), (OPEN_FILES, OPEN)):
        for name in names:
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(f"{content}: {name}\n")
    for link, target in LINKS.items():
        (home / link).symlink_to(target)
    return House(home)
