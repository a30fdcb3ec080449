"""Items, the folder they are computed in, and the gallery of their results."""
