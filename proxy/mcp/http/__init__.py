"""What stands behind `/mcp/<server>`: exchanges, sessions, and the two kinds of servers."""
