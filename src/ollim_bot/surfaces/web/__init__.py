"""The local page: a small server on loopback, for the owner on their own machine."""
