"""The installed program: its service and its updates."""
