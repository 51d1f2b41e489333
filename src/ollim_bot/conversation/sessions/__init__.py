"""The sessions of the engine that are spoken with."""
