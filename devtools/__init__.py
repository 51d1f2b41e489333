"""Programs for developers, which are not installed with the bot."""
