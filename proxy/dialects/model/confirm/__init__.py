"""The question whether a held memory may be stored, put to a person at the end of a model's reply.

Pure functions make that question and read the person's answer.
"""
