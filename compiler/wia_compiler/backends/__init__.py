"""Targets: a folder each, with the same file names in all; none knows of another."""
