"""Calendars that are read at an address or from a file."""
