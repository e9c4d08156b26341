"""The conformance suite: scenarios as data, for anything that remembers on behalf of an agent."""
