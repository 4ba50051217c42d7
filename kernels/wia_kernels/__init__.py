"""Kernels in the language, one family a file."""
