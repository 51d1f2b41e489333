"""Files that came with messages."""
