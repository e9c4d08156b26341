"""The sidecar's traces, metrics and logs, none of which ever contains text of a memory."""
