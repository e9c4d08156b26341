"""What others are told of the audit log, at least once, and never with content."""
