"""Google: signing in, the token, and one client for all of its APIs."""
