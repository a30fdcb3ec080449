"""What a theorem asks of a compression, and what measurement reaches: ``codebound plan``."""
