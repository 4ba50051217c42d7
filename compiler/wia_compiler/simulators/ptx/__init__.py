"""Runs PTX text on numpy arrays and counts what it does."""
