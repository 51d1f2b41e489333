"""A proactive personal assistant for one person."""

__version__ = "0.18.0"
