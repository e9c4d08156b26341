"""Decodes and answers the memory API of Mnemogate itself, `/v1`."""
