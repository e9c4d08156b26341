"""The durable log of the session ledger: sealed frames, appended by one thread."""
