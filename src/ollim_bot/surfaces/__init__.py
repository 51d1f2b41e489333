"""The surfaces through which the owner and the bot talk, each behind `ChatSurface`."""
