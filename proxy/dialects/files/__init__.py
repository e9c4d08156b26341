"""Memory files: which paths are theirs, what is known of their text, and what an edit changes."""
