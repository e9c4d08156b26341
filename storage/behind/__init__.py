"""Memories of servers behind: intents, their results, and the tools that are pinned."""
