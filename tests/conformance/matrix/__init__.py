"""The conformance matrix: what is run for each op, on what, and how far results may differ."""
