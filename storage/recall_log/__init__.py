"""The recall ledger's files: what was served to whom, appended to and forgotten by age."""
