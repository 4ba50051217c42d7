"""Which buffers of the host a launch reads and writes, and so which launch waits for which."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects import memref
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation, SSAValue, Use

from wia_compiler.backends.gpu.written_boxes import Box, box_of, overlap
from wia_compiler.dialects.memref_prefetch import PrefetchOp
from wia_compiler.dialects.nvgpu import DeviceAsyncCopyOp
from wia_compiler.dialects.nvgpu_hopper import (
    TensorLoadOp,
    TensorMapCreateOp,
    TensorMapPrefetchOp,
)
from wia_compiler.passes.scf_rewrites.loops import LOADS, STORES, VIEWS

_READS = (*LOADS, PrefetchOp, TensorLoadOp, TensorMapPrefetchOp)


@dataclass(frozen=True)
class Effects:
    """Buffers that a launch reads and writes, as values of the host that no view stands before.

    Of what it writes the box is kept too, where it is known and no view was passed.
    """

    reads: frozenset[SSAValue]
    writes: frozenset[tuple[SSAValue, Box | None]]

    @property
    def written(self) -> frozenset[SSAValue]:
        """The buffers that are written, anywhere in them."""
        return frozenset(buffer for buffer, _ in self.writes)

    def waits_for(self, earlier: Effects) -> bool:
        """Whether the order of the two matters: one writes what the other reads or writes."""
        return bool(
            self.reads & earlier.written
            or self.written & earlier.reads
            or any(
                one == other and overlap(box, before)
                for one, box in self.writes
                for other, before in earlier.writes
            )
        )

    def __or__(self, other: Effects) -> Effects:
        return Effects(self.reads | other.reads, self.writes | other.writes)


def effects_of(call: CallOp, kernel: FuncOp) -> Effects:
    """What a launch of a lowered kernel reads, whole buffers, and writes, boxes of them if known.

    The status record is left out: launches add to it atomically, so their order is of no account.
    A use that is not known to read alone counts as a write.
    """
    reads: set[SSAValue] = set()
    writes: set[tuple[SSAValue, Box | None]] = set()
    for value, parameter in zip(call.arguments, kernel.body.block.args, strict=True):
        root = root_of(value)
        if is_status(root):
            continue
        uses = list(_uses_of(parameter))
        if any(_reads(use) or not _writes_alone(use) for use in uses):
            reads.add(root)
        if any(not _reads(use) for use in uses):
            box = box_of(kernel, parameter.index) if root is value else None
            writes.add((root, box))
    return Effects(frozenset(reads), frozenset(writes))


def root_of(value: SSAValue) -> SSAValue:
    """The buffer behind views and tensor maps."""
    while isinstance(value.owner, (*VIEWS, TensorMapCreateOp)):
        value = value.owner.operands[0]
    return value


def is_status(buffer: SSAValue) -> bool:
    """Whether a buffer of the host is the record of failed checks: all that a host writes."""
    return any(isinstance(use.operation, memref.StoreOp) for use in buffer.uses)


def _uses_of(parameter: SSAValue) -> Iterator[Use]:
    for use in parameter.uses:
        if isinstance(use.operation, VIEWS):
            yield from _uses_of(use.operation.results[0])
        else:
            yield use


def _reads(use: Use) -> bool:
    """Whether a use reads a buffer and does nothing else with it."""
    op = use.operation
    if isinstance(op, DeviceAsyncCopyOp):
        return op.operands[use.index] is op.src
    return isinstance(op, _READS)


def _writes_alone(use: Use) -> bool:
    op: Operation = use.operation
    return isinstance(op, STORES)
