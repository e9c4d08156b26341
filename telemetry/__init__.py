"""What the sidecar tells people: traces, metrics and logs, none of which ever holds content."""
