"""What the rooms of this package share: operations, faults, protocols. No logic."""
