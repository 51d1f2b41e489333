"""The one conversation: what the owner sends, what the agent answers, and in which order."""
