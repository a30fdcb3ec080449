"""Older bounds on f in three forms: as excess risks, as bars of a figure, and as released code has them."""
