"""Quarantine: a committed memory is kept as evidence and shown to no reader.

A memory under quarantine keeps its row and its history. Its id is marked, and index searches
exclude it. Nothing is erased, so its end is one step, with a leaf as well. The store records who
hides the memory: an operator, and each incident that reached it. The memory is shown when nobody
hides it any more.
"""
