"""Plans for memories that are stored already: which are erased, and which caused a wrong answer."""
