"""A Google on loopback: signing in, Tasks, Calendar and Gmail, for the bot's own client."""
