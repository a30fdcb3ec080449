"""Tables and figures of Arora et al. 2018, made again."""
