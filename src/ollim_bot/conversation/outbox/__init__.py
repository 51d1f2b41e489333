"""What the bot sends by itself, from the note that it will to the word that it arrived."""
