"""Jobs as documents in a folder."""
