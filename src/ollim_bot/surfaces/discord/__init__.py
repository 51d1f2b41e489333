"""Discord: the owner's direct messages as a surface."""
