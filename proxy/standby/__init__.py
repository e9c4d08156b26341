"""Members of a shard that do not hold its store: they wait, and connect clients to its holder."""
