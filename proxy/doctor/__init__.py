"""`mnemogate doctor` tries every way in which an agent could bypass the gate; all must fail."""
