"""Where a block must wait: before reading shared memory that was written, before overwriting it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from wia_compiler.backends.gpu.layouts import LAYOUT
from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.passes.tile_rewrites import scope_of


@dataclass
class _Open:
    """Shared buffers touched since the last barrier."""

    read: set[object] = field(default_factory=set[object])
    written: set[object] = field(default_factory=set[object])

    def conflicts(self, reads: set[object], writes: set[object]) -> bool:
        return bool(reads & self.written or writes & (self.read | self.written))

    def copy(self) -> _Open:
        """The same, on its own."""
        return _Open(set(self.read), set(self.written))

    def holds(self, other: _Open) -> bool:
        """Whether all that is open there is open here."""
        return other.read <= self.read and other.written <= self.written

    def add(self, other: _Open) -> None:
        """What is open there is open here too."""
        self.read |= other.read
        self.written |= other.written

    def clear(self) -> None:
        self.read.clear()
        self.written.clear()


def leaves_behind_barrier(body: Block) -> set[ComputeOp]:
    """The leaves before which every thread of the block waits.

    The rule: a barrier stands before a leaf that reads a shared buffer written since the last
    barrier, and before one that writes a shared buffer read or written since. A loop's body
    follows itself: barriers are those that its later turns need. A reduction at level ``block``
    writes its own scratch memory, waits once inside and reads it, so it needs a barrier before it
    only where nothing waited since its last turn.
    """
    found: set[ComputeOp] = set()
    _walk(body, _Open(), found)
    return found


def _walk(body: Block, state: _Open, found: set[ComputeOp]) -> None:
    for op in body.ops:
        if isinstance(op, ComputeOp):
            _visit(op, state, found)
        elif isinstance(op, ForOp):
            _walk_loop(op, state, found)
        elif isinstance(op, scf.IfOp):
            _walk_branch(op, state, found)


def _walk_loop(op: ForOp, state: _Open, found: set[ComputeOp]) -> None:
    """A loop that runs again begins with what its last turn left, whatever turn that was."""
    entry = state.copy()
    while op.level.data in ("serial", "grid"):
        last = entry.copy()
        _walk(op.body.block, last, set(found))
        if entry.holds(last):
            break
        entry.add(last)
    state.add(entry)
    _walk(op.body.block, state, found)


def _walk_branch(op: scf.IfOp, state: _Open, found: set[ComputeOp]) -> None:
    """Either way may be taken, by all threads alike: what is open after one of them is open."""
    before = state.copy()
    for region in op.regions:
        for block in region.blocks:
            own = before.copy()
            _walk(block, own, found)
            state.add(own)


def _visit(leaf: ComputeOp, state: _Open, found: set[ComputeOp]) -> None:
    reads, writes = _shared(leaf.inputs), _shared(leaf.outputs)
    if leaf.folds:
        reads |= writes
    scratch: set[object] = {leaf} if _folds_through_scratch(leaf) else set()
    if leaf in found or state.conflicts(reads, writes | scratch):
        found.add(leaf)
        state.clear()
    state.read |= reads
    state.written |= writes | scratch
    if scratch:
        # Its barrier: what came before is settled, then the scratch memory is read.
        state.clear()
        state.read |= scratch


def _folds_through_scratch(leaf: ComputeOp) -> bool:
    """Whether a block folds by way of shared memory; sums in fragments stay in registers."""
    if not leaf.folds or leaf.level.data != "block":
        return False
    owners = [value.owner for value in leaf.outputs]
    return not any(isinstance(op, Operation) and LAYOUT in op.attributes for op in owners)


def _shared(values: Iterable[SSAValue]) -> set[object]:
    return {value for value in values if scope_of(value) == "shared"}
