"""The tables in LMDB: rows, keys, the bytes of each value, and the changes of a transaction."""
