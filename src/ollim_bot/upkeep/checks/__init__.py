"""What the doctor looks at: each check tells what it found, and changes nothing."""
