"""Fronts read requests, authenticate them, translate them and pass them on; none decides."""
