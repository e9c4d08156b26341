"""A decoded operation becomes a candidate with its evidence, and its verdict an answer."""
