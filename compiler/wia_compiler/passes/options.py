"""What a build may ask of the compiler beside arguments and target."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CompileOptions:
    """How one kernel is compiled.

    ``debug`` checks every index of loop-level text at run time, also where it is proven to be in
    range; it changes the code and so is part of the cache key. ``verify`` runs every stage that can
    be interpreted beside the kernel as written, and names the first pass that changed the answer;
    the code is the same.
    """

    debug: bool = False
    verify: bool = False


DEFAULT_OPTIONS = CompileOptions()
"""What a build does that asks for nothing."""
