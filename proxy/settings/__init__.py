"""Reads the settings: one table of them, one reader of the environment, and checks of files."""
