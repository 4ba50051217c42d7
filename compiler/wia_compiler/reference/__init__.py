"""The meaning of every op, on numpy: the definition all targets are tested against."""
