"""A Discord on loopback for the unmodified discord.py, with a say over the owner and failures."""
