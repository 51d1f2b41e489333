"""The local page: a small server on loopback, for one person on their own machine."""
