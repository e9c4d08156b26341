"""Which place a file path of a tool call leads to, by links and imports too."""
