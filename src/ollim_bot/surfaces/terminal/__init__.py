"""The `ollim-bot` command: one file per noun, nothing heavy imported at the top."""
