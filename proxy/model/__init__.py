"""Handles one model request from end to end: its principal, its context, its calls."""
