"""Connections to the tool servers that the owner has added."""
