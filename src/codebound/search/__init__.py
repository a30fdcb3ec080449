"""The search for the message that proves most: one file per method, all in one registry."""
