"""Limits that keep a tab or a stranger from exhausting the bot."""

from __future__ import annotations

from dataclasses import dataclass

_MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class WebLimits:
    """`file` and `body` are in bytes."""

    file: int = 25 * _MEGABYTE
    files: int = 10
    text_characters: int = 100_000
    body: int = 64 * 1024
    body_seconds: float = 15
    stall_seconds: float = 30
    upload_seconds: float = 30 * 60
    idle_seconds: float = 30
    linger_seconds: float = 2
    connections: int = 300
    strangers: int = 100
    stranger_seconds: float = 20
    hello_seconds: float = 15
    entrance_seconds: float = 5
    heartbeat_seconds: float = 20
    tabs: int = 40
    queued_frames: int = 400
    missed_messages: int = 200
