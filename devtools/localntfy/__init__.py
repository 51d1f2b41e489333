"""A local ntfy: server and phone on loopback."""
