"""Wire adapters, pure: bytes to operation, result to bytes. No network, no storage."""
