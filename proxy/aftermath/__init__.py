"""What follows a write that was wrong: signals, judges, and the search for who is to blame."""
