"""The history of the data directory, kept with git."""
