"""A proactive personal assistant for one person."""

__version__ = "0.19.0"
