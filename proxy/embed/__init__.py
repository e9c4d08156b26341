"""Embeds texts as unit vectors; the store itself only stores vectors, and computes none."""
