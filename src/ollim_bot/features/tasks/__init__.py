"""The owner's tasks, in a file or at Google."""
