"""The state in PostgreSQL: the same steps and repositories as in a file of SQLite."""
