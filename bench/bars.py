"""The bars of the contract, in its order and its words; each is measured by one row or more."""

from __future__ import annotations

from enum import Enum


class Bar(Enum):
    COMMAND = (
        "`ollim-bot reminder list` over 50 jobs, cold: ≤ 6 × `python -c pass`; nothing of asyncio, "
        "aiohttp, discord, the SDK or pydantic imported"
    )
    COMMANDS = (
        "`today`, `tasks list`, `routine list`, `cost`, `changes`, `runs`, `receipt`, `doses`, "
        "`history search`, `config`, `--help`, cold, 50 jobs: ≤ 8 × `python -c pass` each"
    )
    FIRST_SIGN = "message in → first sign on the surface: ≤ 50 ms of our own time"
    FIRST_TEXT = "added time of a turn over the bare SDK client, to first text: ≤ 30 ms"
    EDITS = (
        "edits for a 20,000 character answer: within the allowance, no 429, ≤ 1.2 × the minimum "
        "possible"
    )
    NEW_JOB = "new job file → armed: ≤ 1 s (typically < 100 ms)"
    DUE = "due moment → prompt at the model: ≤ 1 s with a warm engine"
    MANY_JOBS = (
        "10,000 jobs: start to armed; idle CPU; one edit → armed: ≤ 2 s; < 0.5 % of a core; ≤ 1 s"
    )
    NO_GROWTH = (
        "append to ledger, pending update with 10,000 others waiting: does not grow with history"
    )
    GIT = "git commit cost on the hot path: 0 (off the loop), batched"
    WEBHOOK = "webhook accepted (on disk): ≥ 500 per second on two cores"
    MEMORY = (
        "memory of our process, idle, with 1,000 jobs; after a simulated year: ≤ 120 MB; no growth"
    )
    BACKGROUND = "background runs at once: bounded; the queue drains in due order"
