"""Proof by trying: doctor attempts every way to write around the gate, and must fail."""
