"""Model APIs, read and rewritten: what entered a context, and what a model asks its agent to do.

Pure. A dialect here never fails a model request for what it holds: what cannot be placed is
labelled `unknown`, and passes.
"""
