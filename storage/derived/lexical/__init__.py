"""Words of texts as keyed hashes, their postings, and the score of a memory for a question."""
