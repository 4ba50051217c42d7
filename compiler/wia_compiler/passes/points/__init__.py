"""Point code of nests: what its indices are, which loops depend on what, leaves made of it."""
