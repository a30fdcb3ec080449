"""Layers as linear maps, graphs of steps, and copies with other tensors."""
