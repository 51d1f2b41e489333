"""What the machine and the owner say before anything else is read."""
