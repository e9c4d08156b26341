"""Whether a file path of a tool call leads to one of an agent's memory files, by links too."""
