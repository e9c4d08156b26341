"""Memory files: the paths that name them, the known texts of files, and the changes of an edit."""
