"""The way to Discord and back, through discord.py."""
