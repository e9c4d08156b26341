"""Fronts read, authenticate, translate and forward requests; no front decides on a candidate."""
