"""What the agent may do with paths and commands, and what a careful session asks."""
