"""The question to a person at the end of a reply, and the person's answer: pure functions."""
