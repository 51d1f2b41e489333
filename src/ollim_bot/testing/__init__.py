"""Doubles of the seams, and the contracts that doubles and real things both keep."""
