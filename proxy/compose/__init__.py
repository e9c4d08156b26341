"""Every object of a running sidecar is built here, once."""
