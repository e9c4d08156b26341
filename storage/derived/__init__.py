"""Indexes that may be deleted and are made anew from the tables."""
