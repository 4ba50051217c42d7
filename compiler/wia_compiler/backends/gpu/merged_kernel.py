"""Several kernels as one: each takes a range of the block's number.

::

    func @a(%x) {blocks 128, threads 128}      func @a_and_b(%x, %y) {blocks 148, threads 256}
      A(block, thread)                           %block, %thread = …
    func @b(%y) {blocks 20, threads 256}    →    scf.if %block < 128 {
      B(block, thread)                             scf.if %thread < 128 { A(%block, %thread) }
                                                 } else { B(%block - 128, %thread) }

The branch is the same for all threads of a block. A kernel of fewer threads than the block has
leaves the others out, whole warps of them, and its barriers count those that are in. Shared memory
of the code is that of the largest kernel: a block is one of them, so they lie over one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, func, gpu, memref
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    UnitAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from wia_compiler.backends.gpu.architecture import WARP_SIZE
from wia_compiler.backends.gpu.builder import Builder
from wia_compiler.backends.gpu.launch import (
    BLOCK_SIZE,
    GRID_SIZE,
    MIN_BLOCKS,
    PARTS,
    integer_of,
)
from wia_compiler.backends.gpu.shared_memory import aligned_bytes, shared_bytes
from wia_compiler.dialects.gpu_dynamic_shared import DYNAMIC_SHARED_BYTES
from wia_compiler.dialects.gpu_ids import BlockIdOp, ThreadIdOp
from wia_compiler.dialects.gpu_shuffle import ShuffleOp
from wia_compiler.dialects.nvgpu import MmaSyncOp
from wia_compiler.dialects.nvvm_barrier import BarrierOp
from wia_compiler.dialects.nvvm_warp import BarWarpSyncOp
from wia_compiler.passes.llvm.types import scope_of

_X = gpu.DimensionAttr(gpu.DimensionEnum.X)


@dataclass(frozen=True)
class Piece:
    """A kernel, the values of the host that a launch passes to it, and cycles of a warp alone."""

    kernel: func.FuncOp
    arguments: tuple[SSAValue, ...]
    cycles: int = 0

    @property
    def blocks(self) -> int:
        """Of its launch."""
        return integer_of(self.kernel, GRID_SIZE)

    @property
    def threads(self) -> int:
        """Of a block."""
        return integer_of(self.kernel, BLOCK_SIZE)


def merge_kernels(name: str, pieces: Sequence[Piece]) -> tuple[func.FuncOp, list[SSAValue]]:
    """The kernel of several, which takes over their bodies, and what its launch passes.

    A value that several are passed is one parameter. Arrays come first, then tensor maps. Each
    kernel is taken apart: one that is launched elsewhere too has to be cloned before.
    """
    passed = list(dict.fromkeys(value for piece in pieces for value in piece.arguments))
    passed.sort(key=lambda value: not isinstance(value.type, MemRefType))
    attributes: dict[SSAValue, DictionaryAttr] = {}
    body = Block(arg_types=[value.type for value in passed])
    parameters = dict(zip(passed, body.args, strict=True))
    for piece in pieces:
        own = piece.kernel.arg_attrs.data if piece.kernel.arg_attrs is not None else ()
        for number, value in enumerate(piece.arguments):
            parameter = piece.kernel.body.block.args[number]
            parameters[value].name_hint = parameters[value].name_hint or parameter.name_hint
            attributes[value] = own[number] if number < len(own) else DictionaryAttr({})
            parameter.replace_all_uses_with(parameters[value])
    threads = max(piece.threads for piece in pieces)
    _Merging(body, pieces, threads).run()
    types = [value.type for value in passed]
    kernel = func.FuncOp(name, (types, []), Region(body))
    kernel.location = pieces[0].kernel.location
    kernel.arg_attrs = ArrayAttr([attributes[value] for value in passed])
    kernel.attributes |= _launch_attributes(pieces, threads)
    return kernel, passed


def _launch_attributes(pieces: Sequence[Piece], threads: int) -> dict[str, Attribute]:
    """How the merged kernel is launched: bounds hold what the piece of most registers may have."""
    blocks = sum(piece.blocks for piece in pieces)
    dynamic = max(integer_of(piece.kernel, DYNAMIC_SHARED_BYTES) for piece in pieces)
    made: dict[str, Attribute] = {
        "wia.nest": UnitAttr(),
        "gpu.kernel": UnitAttr(),
        BLOCK_SIZE: IntegerAttr(threads, i64),
        GRID_SIZE: IntegerAttr(blocks, i64),
        PARTS: ArrayAttr(
            [
                DictionaryAttr(
                    {
                        "entry": piece.kernel.sym_name,
                        "blocks": IntegerAttr(piece.blocks, i64),
                        "threads": IntegerAttr(piece.threads, i64),
                        "cycles": IntegerAttr(piece.cycles, i64),
                    }
                )
                for piece in pieces
            ]
        ),
    }
    held = min_blocks_of(pieces, threads)
    if held:
        made[MIN_BLOCKS] = IntegerAttr(held, i64)
    if dynamic:
        made[DYNAMIC_SHARED_BYTES] = IntegerAttr(dynamic, i64)
    return made


def min_blocks_of(pieces: Sequence[Piece], threads: int) -> int:
    """The least blocks on an SM that leave each piece its registers; 0 where none has a bound.

    One that has none gets all registers that a block may have.
    """
    bounds = [integer_of(piece.kernel, MIN_BLOCKS) for piece in pieces]
    if not any(bounds):
        return 0
    held = [bound * piece.threads // threads for bound, piece in zip(bounds, pieces, strict=True)]
    return max(1, min(held))


class _Merging:
    def __init__(self, body: Block, pieces: Sequence[Piece], threads: int):
        self.body = body
        self.pieces = pieces
        self.threads = threads
        self.builder = Builder(body, pieces[0].kernel.location)

    def run(self) -> None:
        self._overlay_shared()
        self.thread = self.builder.add(ThreadIdOp(_X)).result
        self.thread.name_hint = "thread"
        self.block = self.builder.add(BlockIdOp(_X)).result
        self.block.name_hint = "block"
        firsts = [0]
        for piece in self.pieces:
            firsts.append(firsts[-1] + piece.blocks)
        self._choose(firsts, 0, len(self.pieces))
        self.builder.add(func.ReturnOp())

    def _choose(self, firsts: Sequence[int], low: int, high: int) -> None:
        """Halve the pieces until one is left whose range the block is in."""
        if high - low == 1:
            self._piece(self.pieces[low], firsts[low])
            return
        middle = (low + high) // 2
        limit = self.builder.number(firsts[middle], IndexType())
        before = self.builder.add(arith.CmpiOp(self.block, limit, "ult")).result

        def way(first: int, last: int) -> Sequence[SSAValue]:
            self._choose(firsts, first, last)
            return ()

        self.builder.either(before, lambda: way(low, middle), lambda: way(middle, high))

    def _piece(self, piece: Piece, first: int) -> None:
        builder = self.builder
        builder.location = piece.kernel.location
        if first and any(isinstance(op, BlockIdOp) for op in piece.kernel.walk()):
            start = builder.number(first, IndexType())
            block = builder.add(arith.SubiOp(self.block, start)).result
            block.name_hint = f"{piece.kernel.sym_name.data}_block"
        else:
            block = self.block
        if piece.threads == self.threads:
            self._body(piece, block)
            return
        count = builder.number(piece.threads, IndexType())
        inside = builder.add(arith.CmpiOp(self.thread, count, "ult")).result
        builder.when(inside, lambda: self._body(piece, block))

    def _body(self, piece: Piece, block: SSAValue) -> None:
        """Move the ops of a kernel to here."""
        is_part = piece.threads < self.threads
        for op in list(piece.kernel.walk()):
            match op:
                case ThreadIdOp():
                    _replace(op, self.thread)
                case BlockIdOp():
                    _replace(op, block)
                case gpu.BarrierOp() if is_part:
                    self._count_barrier(op, piece.threads)
                case _:
                    pass
        for op in list(piece.kernel.body.block.ops):
            op.detach()
            if isinstance(op, func.ReturnOp):
                op.erase()
            else:
                self.builder.add(op, op.location)

    def _count_barrier(self, op: gpu.BarrierOp, threads: int) -> None:
        place = op.parent
        assert place is not None
        number, count = (arith.ConstantOp(IntegerAttr(each, i32)) for each in (0, threads))
        counted = BarrierOp(number.result, count.result)
        for made in (number, count, counted):
            made.location = op.location
            place.insert_op_before(made, op)
        op.detach()
        op.erase()

    def _overlay_shared(self) -> None:
        """One buffer for the shared memory of all; where one piece has some, it stays as it is."""
        using = [piece for piece in self.pieces if static_shared(piece.kernel)]
        if len(using) < 2:
            return
        space = static_shared(using[0].kernel)[0].memref.type.memory_space
        memory = shared_bytes(max(static_bytes(piece.kernel) for piece in using), space)
        self.builder.add(memory)
        for piece in using:
            end = 0
            for buffer in static_shared(piece.kernel):
                size = aligned_bytes(buffer)
                self._lay(buffer, memory.memref, end)
                end += size

    def _lay(self, buffer: memref.AllocOp, memory: SSAValue, start: int) -> None:
        place = buffer.parent
        assert place is not None
        offset = arith.ConstantOp(IntegerAttr(start, IndexType()))
        view = memref.ViewOp.build(
            operands=[memory, offset.result, []], result_types=[buffer.memref.type]
        )
        view.result.name_hint = buffer.memref.name_hint
        for made in (offset, view):
            made.location = buffer.location
            place.insert_op_before(made, buffer)
        _replace(buffer, view.result)


def static_shared(kernel: func.FuncOp) -> list[memref.AllocOp]:
    """Buffers in the code's own shared memory."""
    found = [op for op in kernel.walk() if isinstance(op, memref.AllocOp)]
    return [op for op in found if scope_of(op.memref.type) == "shared"]


def static_bytes(kernel: func.FuncOp) -> int:
    """Bytes that they take one after the other."""
    return sum(map(aligned_bytes, static_shared(kernel)))


def fits_guarded(kernel: func.FuncOp, threads: int) -> bool:
    """Whether a kernel of so many threads can be in a larger block: in whole warps, or on its own.

    A barrier counts whole warps, and a shuffle wants all lanes of one, as matrix units do.
    """
    if threads % WARP_SIZE == 0:
        return True
    together = (gpu.BarrierOp, ShuffleOp, BarWarpSyncOp, MmaSyncOp)
    return not any(isinstance(op, together) for op in kernel.walk())


def _replace(op: Operation, by: SSAValue) -> None:
    op.results[0].replace_all_uses_with(by)
    op.detach()
    op.erase()


def name_of(pieces: Sequence[Piece], taken: set[str]) -> str:
    """``a_and_b``, ``a_and_2_more``: a name that no function has."""
    names = [piece.kernel.sym_name.data for piece in pieces]
    joined = "_and_".join(names) if len(names) == 2 else f"{names[0]}_and_{len(names) - 1}_more"
    number, free = 1, joined
    while free in taken:
        number += 1
        free = f"{joined}_{number}"
    return free
