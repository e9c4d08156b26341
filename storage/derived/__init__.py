"""Indexes that may be deleted and are rebuilt from the tables."""
