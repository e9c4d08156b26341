"""What happens to an admitted write for another server: intent, sent, settled, reconciled.

No protocol is known here.
"""
