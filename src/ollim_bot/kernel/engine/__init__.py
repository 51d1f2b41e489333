"""The Claude Agent SDK behind `AgentEngine`."""
