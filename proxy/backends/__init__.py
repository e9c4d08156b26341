"""Memory servers behind the gate that speak HTTP: one folder each, pure."""
