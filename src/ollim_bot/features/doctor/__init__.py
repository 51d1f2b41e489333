"""The checks of the doctor. A check reports what it finds, and changes nothing."""
