"""What an owner wants done about reminders and routines: understood whole, asked back, or nothing.

A wrong reading is worse than none: whatever has two of them is asked back.
"""

from __future__ import annotations

from ollim_bot.offline.wishes.reading import wish_of
from ollim_bot.offline.wishes.wish import Cancel, Remind, Repeat, Unsure, Wish

__all__ = ["Cancel", "Remind", "Repeat", "Unsure", "Wish", "wish_of"]
