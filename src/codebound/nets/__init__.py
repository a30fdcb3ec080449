"""Networks as this library sees them: layer views, steps, rebuilt copies, architectures, weight files."""
