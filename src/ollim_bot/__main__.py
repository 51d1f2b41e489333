"""`python -m ollim_bot` is `ollim-bot`."""

from __future__ import annotations

import os
import sys

# Python puts the current folder first, where a `json.py` would be taken for Python's own.
_IS_FOUND_THERE = __file__.startswith(os.path.join(sys.path[0], "ollim_bot", ""))
if __name__ == "__main__" and not sys.flags.safe_path and not _IS_FOUND_THERE:
    del sys.path[0]

from ollim_bot.surfaces.terminal.main import run  # noqa: E402 - not before the path is right

if __name__ == "__main__":
    run()
