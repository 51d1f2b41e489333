"""The names of sessions, messages and turns."""

from __future__ import annotations

from typing import NewType

SessionId = NewType("SessionId", str)
MessageId = NewType("MessageId", str)
TurnId = NewType("TurnId", str)
