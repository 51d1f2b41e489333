"""The same bot on a second machine: its rows in PostgreSQL, and one machine that leads."""
