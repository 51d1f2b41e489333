"""Past conversations: searching, reading, exporting."""
