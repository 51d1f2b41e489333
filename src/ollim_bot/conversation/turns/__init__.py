"""The agent's turns: asking, answering, and resuming after a crash."""
