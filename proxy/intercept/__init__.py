"""Turns decoded operations into candidates with evidence, and their verdicts into answers."""
