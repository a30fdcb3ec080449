"""The search for the message that proves most: methods propose, all of them named in one table."""
