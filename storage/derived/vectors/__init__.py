"""The vector index: segments, their files, sketches, and the exact scan."""
