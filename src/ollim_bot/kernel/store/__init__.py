"""What is kept: state, job files, history, attachments."""
