"""Messages to outside receivers about leaves of the audit log: at least once, without content."""
