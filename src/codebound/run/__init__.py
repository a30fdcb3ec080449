"""Foundations: errors, files, progress, interrupts, devices, locked stores, jobs."""
