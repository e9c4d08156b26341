"""Files of encrypted records that are only appended to, for the session and recall ledgers."""
