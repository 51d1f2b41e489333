"""The day at one look."""
