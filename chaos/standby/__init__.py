"""Two bots and one PostgreSQL server: what one machine owes, the other one does."""
