"""The store on disk: memories, verdicts and trust. The FAISS index is derived from LMDB."""
