"""The TPU level: one machine, one instruction table, one assembly text, and IR for it."""
