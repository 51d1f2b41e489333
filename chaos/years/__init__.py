"""Months and years of the whole bot, in virtual time."""
