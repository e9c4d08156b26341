"""Store mode, the sidecar as a memory server over MCP: from tool calls to operations."""
