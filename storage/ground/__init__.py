"""The base of the other rooms: clock, errors, random bytes, state directory, checked files."""
