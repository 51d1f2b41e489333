"""What the agent may do: the gates that every call of a tool passes."""
