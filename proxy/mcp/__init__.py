"""The relay between an MCP client and an MCP server, over any transport."""
