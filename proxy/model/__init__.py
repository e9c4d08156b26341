"""One model request from end to end: its principal, its context, and the judging of its calls."""
