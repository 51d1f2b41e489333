"""Values of the domain as JSON."""
