"""What the agent is asked when the owner wants to be set up."""

from __future__ import annotations

from pathlib import Path

_TEXT = Path(__file__).resolve().parent.parent / "texts" / "set-up.md"


def read_set_up() -> str:
    """Read once in a process's life: it belongs to the code that runs."""
    return _TEXT.read_text("utf-8").strip()
