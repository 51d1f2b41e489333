"""Texts for the agent, made by pure functions."""
