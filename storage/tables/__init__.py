"""The tables of LMDB: rows, keys, codecs, and the one change that a transaction makes."""
