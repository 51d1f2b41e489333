"""Values and decisions about them: pure and frozen; time is an argument."""
