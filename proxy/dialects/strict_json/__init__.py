"""Readers of JSON text in three degrees of strictness: for peers, for models, inside strings."""
