"""Memory files: which paths lead to them, what is known of their text, and what an edit changes."""
