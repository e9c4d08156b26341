"""Plans for what is already stored: what is kept, and for how long."""
