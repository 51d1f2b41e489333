"""The engine's sessions in which the owner and the agent talk."""
