"""How a plan says that a group does not fit one nest."""

from __future__ import annotations


class NotOneNest(Exception):
    """A group that one nest cannot express; the message says why."""
