"""Texts to unit vectors. A store takes vectors; it makes none."""
