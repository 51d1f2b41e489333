"""Backups, and putting them back."""
