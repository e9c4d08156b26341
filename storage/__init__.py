"""What is kept on disk: memories, verdicts and trust. LMDB is the truth, FAISS is made from it."""
