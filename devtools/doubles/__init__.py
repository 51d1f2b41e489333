"""Doubles of the seams, and the contract suites that doubles and real adapters both pass."""
