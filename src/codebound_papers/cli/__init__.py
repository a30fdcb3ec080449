"""The verbs that the papers add to the command line: one file each."""
