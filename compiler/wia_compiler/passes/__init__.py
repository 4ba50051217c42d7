"""Rewrites of the IR: one pass a file; ``pipeline.py`` is the page that lists them in order."""
