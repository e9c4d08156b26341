"""The server side of the operator API: the features that answer operators' calls."""
