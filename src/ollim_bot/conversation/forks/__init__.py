"""Interactive forks: a branch of the conversation, from its opening to one of three ends."""
