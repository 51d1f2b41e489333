"""What happens by itself: which jobs there are, when they are due, and what becomes of them."""
