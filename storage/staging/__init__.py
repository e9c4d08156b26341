"""Candidates before a verdict, each encrypted under a key of its own."""
