"""Quarantine: a committed memory is kept as evidence and no reader is shown it.

A memory in quarantine keeps its row and its history. The id record is marked, and searches of the
indexes exclude the memory. Nothing is erased, so that one order ends the quarantine, with a leaf.
The store records who hides the memory: an operator, and each incident that reached it. The memory
is shown again when no one hides it any more.
"""
