"""What the owner writes, from Discord into the conversation."""
