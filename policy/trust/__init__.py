"""Trust in a principal: the ladder that only leads down, until an operator restores it."""
