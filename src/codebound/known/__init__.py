"""Information fixed without the counted examples: shares, encoders, and learners, free to change."""
