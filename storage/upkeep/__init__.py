"""Backup and restore of a state directory, and reads of a store without a gate."""
