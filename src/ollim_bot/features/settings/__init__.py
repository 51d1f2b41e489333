"""Settings that change while the bot runs."""
