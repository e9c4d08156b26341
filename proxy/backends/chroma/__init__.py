"""The adapter of an upstream Chroma server: the records of its collections.

Source: the OpenAPI of `chroma run` 1.5.9, and the `chromadb` client 1.5.9 against it.
"""
