"""The loop level: types, index ranges, which loops are independent, what is written."""
