"""Slash commands: one table for every surface, and what each of them does."""
