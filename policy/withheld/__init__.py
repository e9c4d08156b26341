"""How a refused text is recognised in the texts that an agent may be shown."""
