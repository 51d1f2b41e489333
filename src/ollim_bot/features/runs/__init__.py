"""What the bot did by itself: runs, receipts, doses."""
