"""From an admitted write to its outcome at a server behind: intent, sent, settled, reconciled.

No protocol is known here.
"""
