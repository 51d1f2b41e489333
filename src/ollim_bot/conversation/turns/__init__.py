"""Turns of the agent: asked, answered, and gone on with after a crash."""
