"""The coming days: what the jobs would do, and what a draft would change in that.

The rules are those of the real schedule: `kernel.values.decision` decides about each occurrence.
How long a run takes is assumed.
"""
