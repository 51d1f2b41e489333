"""The built-in model: a Messages API server on loopback that answers by rules or by a script."""
