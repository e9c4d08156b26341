"""`mnemogate doctor` attempts every way to write around the gate; each attempt must fail."""
