"""The same bot on a second machine: its state in PostgreSQL, and one machine that leads."""
