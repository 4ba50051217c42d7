"""``pattern`` blocks: matching, the check that a rewrite keeps what is computed, rewriting."""
