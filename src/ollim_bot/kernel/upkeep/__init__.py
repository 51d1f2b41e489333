"""Keeps the installation healthy: one instance at a time, and a doctor that checks it."""
