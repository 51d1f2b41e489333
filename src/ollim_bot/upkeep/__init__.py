"""Keeping the installation healthy: one instance at a time."""
