"""The Model Context Protocol as values: messages, tool maps, calls, results, catalogues."""
