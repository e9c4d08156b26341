"""Makes candidates with their evidence of decoded operations, and answers of their verdicts."""
