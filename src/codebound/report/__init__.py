"""Pages for people: they show results, they never compute them."""
