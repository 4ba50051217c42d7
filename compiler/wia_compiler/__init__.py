"""Source text in; a runnable kernel and a record of how it came about out."""
