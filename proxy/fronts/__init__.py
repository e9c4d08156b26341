"""Fronts: bytes in, bytes out; each authenticates, translates and hands on, none decides."""
