"""Memories that other servers keep: intents, their results, and the servers' approved tools."""
