"""Machines in numpy: each runs the text that a backend emits, and counts. They know no backend."""
