"""One model request from end to end: its principal, its context, and its calls judged."""
