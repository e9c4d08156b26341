"""Files of memory: which paths they are, what is known of their text, and what an edit brings."""
