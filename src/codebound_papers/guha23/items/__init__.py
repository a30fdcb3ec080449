"""Tables, figures and experiments of Guha et al. 2023, made again."""
