"""The question to a person at the end of a reply, and her answer: pure functions."""
