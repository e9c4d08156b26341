"""The command line: it parses arguments, calls the operator API, and prints tables or JSON."""
