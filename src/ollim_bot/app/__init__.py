"""The composition root: the only place where all parts know each other."""
