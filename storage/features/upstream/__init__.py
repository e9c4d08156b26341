"""Memories on upstream servers: admitted changes, their results, and what is hidden there."""
