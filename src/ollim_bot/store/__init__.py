"""All state of the program: one SQLite database, its mirrors in files, its copies."""
