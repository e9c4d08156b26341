"""The relay between an MCP client and an MCP server, whatever carries their messages."""
