"""Messages as text that Discord takes: divided, marked, and told apart."""
