"""MCP over HTTP, behind `/mcp/<server>`: exchanges, sessions, and two kinds of servers."""
