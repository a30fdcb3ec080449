"""One reproducible and resumable training loop, and training to few bits."""
