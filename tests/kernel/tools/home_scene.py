"""A home with a data directory, secrets, and links that lead to them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SECRET = "hunter2"
OPEN = "open to the agent"

SECRET_FILES = (
    "data/state/token.json", "data/state/deep/web_token", "data/.env", "data/.env.local",
    "data/.git/config", "outside.md", "elsewhere/plan.md",
)  # fmt: skip
OPEN_FILES = (
    "data/note.md", "data/notes/plan.md", "data/notes/state/old.md", "data/routines/daily.md",
    "data/.claude/agents/guide.md", "data/tool-policy.yaml", "texts/spec.md",
)  # fmt: skip
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
class HomeScene:
    root: Path

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def texts(self) -> Path:
        return self.root / "texts"

    def spelled(self, text: str) -> str:
        """The text with `{data}` and `{home}` replaced by their paths."""
        return text.replace("{data}", str(self.data)).replace("{home}", str(self.root))


def make_home(root: Path) -> HomeScene:
    for names, content in ((SECRET_FILES, SECRET), (OPEN_FILES, OPEN)):
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(f"{content}: {name}\n")
    for link, target in LINKS.items():
        (root / link).symlink_to(target)
    return HomeScene(root)
