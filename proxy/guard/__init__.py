"""The guard, which relays ask about calls to upstream memory servers and their answers."""
