"""The interface between the shared compiler and one target's folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from wia_compiler.base.record import Stage, Trace
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.framework import Pass, PassContext


@dataclass(frozen=True)
class ArraySpec:
    """One argument of a kernel: shape, dtype, and strides in elements (``None``: C order)."""

    name: str
    spec: TensorSpec
    strides: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Artifact:
    """What code generation leaves: plain bytes and JSON values, ready for the cache on disk.

    ``files`` holds what the target needs to run (``kernel.o``, ``kernel.ptx``, ``kernel.tpu``);
    ``assembly`` the texts that ``build.assembly(format)`` shows; ``resources`` what
    ``build.resources`` shows; ``metadata`` what ``load`` needs beside the files. ``later`` are
    formats that take long and run nothing (``sass``): ``LaterStages`` makes them.
    """

    target: str
    kernel: str
    files: Mapping[str, bytes]
    assembly: Mapping[str, str]
    resources: Mapping[str, Any] = field(default_factory=dict[str, Any])
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    later: tuple[str, ...] = ()


@dataclass(frozen=True)
class NativeCode:
    """A loaded kernel as a C function: ``void code(void *buffers[])``.

    ``buffers`` are the data of inputs and outputs, then ``workspace_bytes`` of scratch memory,
    aligned to 64 bytes, where there are any. No Python runs before a call, so that what the code
    wants to know of the process it finds out by itself. ``interruptible`` code may ask Python
    whether to stop, wants the interpreter lock released, and leaves an exception behind.
    Where the workspace begins with a number other than 0 after the call, ``on_failure`` is called
    with its first 128 bytes and raises.
    """

    address: int
    workspace_bytes: int = 0
    interruptible: bool = False
    on_failure: Callable[[bytes], None] | None = None
    owner: object = None


class Executable(Protocol):
    """A loaded kernel; one that is a C function has it as ``native: NativeCode``."""

    def __call__(
        self, inputs: Sequence[np.ndarray[Any, Any]], outputs: Sequence[np.ndarray[Any, Any]]
    ) -> Mapping[str, int | float]:
        """Run on numpy arrays of exactly the specs it was built for; outputs are written in place.

        Returns the counters of this run (empty where nothing counts).
        """
        ...


class Target(Protocol):
    """One target: what it is, its own passes, and how text becomes something that runs.

    A target's folder holds ``target.py`` (this object), ``schedule.py`` (its default schedule),
    ``lower.py`` (mid level to its low level), ``emit.py`` (low level to text) and ``execute.py``.
    """

    @property
    def name(self) -> str:
        """``cpu``, ``gpu:sm_90``, ``tpu:spec``."""
        ...

    @property
    def facts(self) -> TargetFacts:
        """What shared passes may know."""
        ...

    @property
    def options(self) -> tuple[str, ...]:
        """All else the code depends on (CPU features, tool versions): part of the cache key."""
        ...

    def passes(self) -> Sequence[Pass]:
        """The target's passes, from unscheduled nests (stage ``loops``) to its low level."""
        ...

    def generate(
        self, module: ModuleOp, context: PassContext, arguments: Sequence[ArraySpec]
    ) -> tuple[Artifact, Sequence[Stage]]:
        """Machine code for the lowered module, and the stages on the way (``llvm``, ``ptx``).

        ``arguments`` are inputs then outputs, in the order of the host function's parameters.
        """
        ...

    def load(self, artifact: Artifact) -> Executable:
        """Make an artifact runnable; ``TargetError`` where this machine lacks what that needs."""
        ...


class LaterStages(Protocol):
    """A target whose artifacts have formats that are made only when someone looks at them."""

    def later_stages(self, artifact: Artifact, trace: Trace) -> Sequence[Stage]:
        """One stage for each of ``artifact.later``, which come after those of the record."""
        ...
