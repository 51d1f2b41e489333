"""What the owner does other than writing: commands, buttons, reactions."""
