"""Tables and figures of Shin 2021, made again."""
