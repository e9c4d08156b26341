"""The durable side: memories, verdicts and trust. LMDB is the truth, FAISS follows from it."""
