"""Sends outside receivers messages about leaves of the audit log, without content."""
