"""Jobs as the conversation shows and runs them."""
