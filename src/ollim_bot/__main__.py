"""`python -m ollim_bot` is `ollim-bot`."""

from __future__ import annotations

from ollim_bot.cli.main import run

if __name__ == "__main__":
    run()
