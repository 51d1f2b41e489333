"""What upkeep stands on: what the doctor finds, one update at a time, and changes of `.env`."""
