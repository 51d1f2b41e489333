"""Months and years of the whole bot, on a clock that hurries."""
