"""What was changed, by whom, and taking it back."""
