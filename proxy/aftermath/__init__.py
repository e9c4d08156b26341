"""Handles wrong answers that memories caused: signals, judges, the search for culprits, parole."""
