"""Proof by trying: whoever runs this tries every way to write around the gate, and must fail."""
