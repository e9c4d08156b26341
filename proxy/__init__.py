"""The process between an agent and its memory: sockets, dialects, sessions, commands."""
