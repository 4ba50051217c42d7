"""Schedules: lists of directives, each a legality-checked rewrite of one nest."""
