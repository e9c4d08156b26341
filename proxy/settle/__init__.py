"""What an admitted write comes to: intent, sent, settled, reconciled, whatever the protocol."""
