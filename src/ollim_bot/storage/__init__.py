"""The only code that opens data files."""
