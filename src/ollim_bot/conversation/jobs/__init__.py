"""Jobs in the conversation: their cards, their buttons, and their foreground runs."""
