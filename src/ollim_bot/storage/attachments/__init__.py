"""Files that came with messages: what they are, where they stay, how the model gets them."""
