"""The interfaces between rooms: operations, faults, protocols. No logic."""
