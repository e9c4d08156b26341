"""What every room of storage stands on: errors, the clock, files, leases and random bytes."""
