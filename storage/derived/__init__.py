"""Indexes that may be deleted: they are rebuilt from the tables."""
