"""The systolic array: schedule, lowering to its instructions, assembly text."""
