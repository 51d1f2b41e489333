"""Webhooks: the server that other programs call, from a request to its acceptance on disk."""
