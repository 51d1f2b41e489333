"""Interactive forks: branches of the conversation, each with one of three ends."""
