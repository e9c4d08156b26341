"""Turns texts into unit vectors. The store itself only takes vectors, and makes none."""
