"""Simulates what the jobs would do in the coming days.

The rules are those of the real schedule: `domain.decision` decides about each occurrence. How long
a run takes is assumed.
"""
