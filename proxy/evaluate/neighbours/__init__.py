"""Other guards of agent memory, played through the same suite in environments of their own."""
