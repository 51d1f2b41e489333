"""The paths that the installation page lists for removal."""

from __future__ import annotations

import re

from tests.wheels import ROOT

_ROW = re.compile(r"^\| (`~/[^|]*`) \|", re.MULTILINE)


def listed_paths() -> set[str]:
    """The paths as the page writes them: `~/.ollim-bot`, or with a `*`."""
    page = (ROOT / "docs" / "install.md").read_text().partition("## Removing it all")[2]
    return {place for cell in _ROW.findall(page) for place in re.findall(r"`([^`]+)`", cell)}
