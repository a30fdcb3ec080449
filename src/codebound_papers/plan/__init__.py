"""Requirements of a theorem on a compression, and what measurement reaches: ``codebound plan``."""
