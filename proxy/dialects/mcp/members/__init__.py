"""The known members of messages, by protocol version: data."""
