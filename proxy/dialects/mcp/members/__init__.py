"""The members of messages that are known, by protocol version: data."""
