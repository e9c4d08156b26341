"""Parses and rewrites model APIs: which texts enter a context, and which tools a model calls.

Pure. A dialect here never refuses a model request for its content: text of unknown origin is
labelled `unknown`, and forwarded.
"""
