"""Text for the agent, made by pure functions."""
