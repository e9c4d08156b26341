"""The settings: a struct for each table of the settings file, their loading, and their checks."""
