"""The tables in LMDB: rows, keys, the bytes of each value, and the one change of a transaction."""
