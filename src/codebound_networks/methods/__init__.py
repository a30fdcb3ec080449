"""Methods of certify that start from a network or train one to few bits."""
