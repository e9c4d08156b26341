"""How a refused text is found again in what may be shown."""
