"""What a build may ask of the compiler beside arguments and target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from wia_compiler.base.schedule import Schedule


@dataclass(frozen=True)
class CompileOptions:
    """How one kernel is compiled.

    ``debug`` checks every index of loop-level text at run time, also where it is proven to be in
    range, and the launches of a simulated GPU for races and their like; it changes the code and so
    is part of the cache key. ``verify`` runs every stage that can be interpreted beside the kernel
    as written, and names the first pass that changed the answer; the code is the same. It runs them
    on ``inputs``, one array for each input of the kernel, or on random ones where that is ``None``.
    ``schedules`` are the blocks that take the place of what the target would choose, one a nest;
    they are part of the cache key too.
    """

    debug: bool = False
    verify: bool = False
    schedules: tuple[Schedule, ...] = ()
    inputs: Sequence[Any] | None = field(default=None, compare=False, repr=False)


DEFAULT_OPTIONS = CompileOptions()
"""What a build does that asks for nothing."""
