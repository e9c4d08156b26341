"""Finds the place (docs/glossary.md) that a file path of a tool call leads to."""
