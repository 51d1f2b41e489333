"""The Claude Agent SDK behind the seam to the agent."""
