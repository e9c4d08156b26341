"""Backup and restore of a state directory, and a store that is read without a gate."""
