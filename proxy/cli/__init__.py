"""The command line: arguments in, tables or JSON out; what it asks for is decided elsewhere."""
