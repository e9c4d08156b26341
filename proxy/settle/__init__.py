"""From an admitted write to its outcome: intent, sent, settled, reconciled. Protocol-neutral."""
