"""Calls in machine code: the entry, the plans it follows, and the pool of results' memory."""
