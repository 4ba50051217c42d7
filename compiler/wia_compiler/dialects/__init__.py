"""The IR levels as xDSL dialects: ``wia`` (high) and ``tile`` (mid), with what they share."""
