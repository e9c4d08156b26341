"""The session ledger: what entered the context of each session, and from where."""
