"""Items, and the folder they are computed in."""
