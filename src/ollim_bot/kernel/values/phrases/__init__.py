"""Moments, durations and rhythms in words: understood completely, or refused with a reason."""
