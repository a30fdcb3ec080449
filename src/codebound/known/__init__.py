"""Information fixed without the counted examples: encoders and first shares."""
