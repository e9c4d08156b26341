"""Leases on the LMDB environment, and random bytes."""
