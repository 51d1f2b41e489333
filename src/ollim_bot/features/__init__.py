"""The capabilities, each in one folder or file."""
