"""Sends to the owner's phone by ntfy, and takes the buttons that are pressed there."""
