"""What stands in the files of `state/`, and how it is read back."""
