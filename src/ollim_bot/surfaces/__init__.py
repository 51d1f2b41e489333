"""Where the owner and the bot meet, each behind `ChatSurface`."""
