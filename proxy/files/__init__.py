"""Files of memory on this machine: whether a path leads to one by a link."""
