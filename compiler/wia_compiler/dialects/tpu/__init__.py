"""The TPU level: one machine, one instruction table, one assembly text, and the IR that prints it."""
