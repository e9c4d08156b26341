"""Many memories hidden, or put back: what is meant, and the batches that do it."""
