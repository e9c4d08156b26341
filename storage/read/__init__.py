"""Readers: searches, listings, histories, the audit log, and the check of a whole store."""
