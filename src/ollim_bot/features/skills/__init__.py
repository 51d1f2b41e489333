"""Instructions that the agent loads by name."""
