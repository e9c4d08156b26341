"""Where memories, verdicts and trust become durable. LMDB is the truth, FAISS follows from it."""
