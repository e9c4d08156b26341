"""The only code that makes anything visible in the store: it stages, judges and commits."""
