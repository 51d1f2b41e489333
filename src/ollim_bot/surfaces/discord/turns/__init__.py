"""Turns while they run, as messages that are edited."""
