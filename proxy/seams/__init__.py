"""What rooms say to each other: operations, faults, protocols. No logic."""
