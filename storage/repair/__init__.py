"""Isolation and rewind: which memories an incident reaches, and the batches that change them."""
