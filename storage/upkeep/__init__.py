"""Backup and restore of a state directory, and reads of a store while no gate is asked."""
