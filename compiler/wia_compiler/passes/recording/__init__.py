"""From IR to the rows of a record: ids, families, provenance, texts."""
