"""Approvals: the owner is asked about calls that nothing allows yet."""
