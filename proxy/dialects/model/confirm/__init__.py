"""The question to a person, at the end of a model's reply, whether a held memory may be stored.

Makes that question and reads the person's answer: pure functions.
"""
