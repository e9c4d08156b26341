"""Adapters of upstream memory servers that speak HTTP: one folder each, without any I/O."""
