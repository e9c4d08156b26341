"""The memory server that Mnemogate itself is over MCP: tool calls to operations."""
