"""What every other room stands on: errors, source spans, settings, dtypes and the record types."""
