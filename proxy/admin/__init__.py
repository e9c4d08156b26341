"""The commands that an operator may give a running sidecar."""
