"""The agent's tools, and the gates that every tool call passes."""
