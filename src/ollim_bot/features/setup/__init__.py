"""Setting the bot up, by questions and by a talk."""
