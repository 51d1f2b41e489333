"""A second process that delivers while the bot is away."""
