"""The files of the recall ledger, which records what was served to whom.

Old records are dropped.
"""
