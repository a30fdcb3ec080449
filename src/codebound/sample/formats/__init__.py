"""Files that samples come in, and datasets known by name."""
