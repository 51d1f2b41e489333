"""The built-in model: a Messages API server on loopback, answering by rules or by a script."""
