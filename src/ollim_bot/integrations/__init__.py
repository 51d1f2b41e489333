"""Services of others that the bot reads from and writes to for the owner."""
