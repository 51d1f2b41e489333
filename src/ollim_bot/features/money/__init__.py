"""What the model costs."""
