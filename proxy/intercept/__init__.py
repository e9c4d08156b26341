"""From a decoded operation to a candidate with its evidence, and from its verdict to an answer."""
