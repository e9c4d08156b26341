"""Texts to unit vectors. The store only takes vectors, and makes none."""
