"""Independent verifier of codebound certificates: shares no code with ``codebound``."""
