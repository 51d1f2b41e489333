"""What the bot knows about the owner, and forgetting it."""
