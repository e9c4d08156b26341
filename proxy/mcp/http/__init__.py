"""MCP over HTTP, below `/mcp/<server>`: exchanges, sessions, and two kinds of servers."""
