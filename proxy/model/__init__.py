"""One model request from end to end: whose it is, what it asks, and its calls judged."""
