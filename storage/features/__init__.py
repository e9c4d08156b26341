"""The features of the store: each has its own tables, orders to the writer, and reads."""
