"""Store mode, the program's own memory server over MCP: from tool calls to operations."""
