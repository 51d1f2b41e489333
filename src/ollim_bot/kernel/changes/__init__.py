"""Changes of the owner's files and items, each of which can be taken back."""
