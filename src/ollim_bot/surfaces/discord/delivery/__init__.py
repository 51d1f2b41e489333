"""What the bot says, brought to the owner once, and changed there when it changes."""
