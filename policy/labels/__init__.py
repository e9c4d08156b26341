"""Where a memory came from: the label of a candidate, and what may raise or lower it."""
