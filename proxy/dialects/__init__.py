"""Wire adapters: bytes into operations, results into bytes; without network or disk."""
