"""Candidates before a verdict, each sealed under a key of its own."""
