"""Builds every object of a running sidecar, each once, and connects them."""
