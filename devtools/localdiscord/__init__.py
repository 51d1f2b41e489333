"""A Discord server on loopback, for tests and for trying the bot by hand."""
