"""The features of the store: each with its tables, its orders and its reads."""
