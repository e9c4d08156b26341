"""Parses and rewrites model APIs: what enters a context, and which tools a model calls.

Pure. A dialect here never refuses a model request for its content: text of unknown origin is
labelled `unknown`, and passes.
"""
