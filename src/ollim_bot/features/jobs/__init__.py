"""What routines and reminders have in common on the command line."""
