"""Keeping the installation healthy: one instance at a time, and a doctor who looks it over."""
