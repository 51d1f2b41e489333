"""Slash commands: one table for every surface, and their handlers."""
