"""Values and the decisions about them: pure, frozen, with the time handed in."""
