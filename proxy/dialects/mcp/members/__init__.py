"""Tables of the known members of MCP messages, one for each protocol version."""
