"""Bytes in, bytes out: fronts, dialects, the session that drives one operation, composition."""
