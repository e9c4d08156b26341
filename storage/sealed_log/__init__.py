"""Sealed files that are only appended to: one of the session ledger, many of the recall ledger."""
