"""Reminders that come: delivered by the program where the agent cannot, done, or put off."""
