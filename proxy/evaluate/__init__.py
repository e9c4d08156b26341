"""`mnemogate evaluate`: what the paper measured, on this very system, and what it did not."""
