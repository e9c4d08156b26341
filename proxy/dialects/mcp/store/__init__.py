"""Store mode: our own memory server over MCP, from tool calls to operations."""
