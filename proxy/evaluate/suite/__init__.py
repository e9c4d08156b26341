"""The conformance suite: scenarios as data, for any program that stores memories for an agent."""
