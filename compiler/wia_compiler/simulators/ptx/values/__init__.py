"""What instructions compute, element by element, on numpy arrays."""
