"""The fenced journal of sealed batches, in which a shared store is durable."""
