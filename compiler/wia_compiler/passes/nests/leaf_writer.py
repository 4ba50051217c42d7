"""Writes nests leaf by leaf, for plans whose loops no single form describes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import LocationAttr, MemRefType, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from wia_compiler.base.dtypes import DType
from wia_compiler.dialects.tile import ComputeOp, ForOp, LeafKind
from wia_compiler.passes.affine import simplify
from wia_compiler.passes.nests.body import Body, scalar_type

Place = Sequence[AffineExpr | str | int]
"""An index by the names of axes and loops: ``("i0 + i", "k")``; numbers and expressions too."""
Compute = Callable[..., SSAValue]
"""Makes a leaf's result from its body and the elements it reads (then what its output held)."""


@dataclass(frozen=True)
class Tile:
    """A buffer, and where a leaf reads or writes it; ``padded``: it reads as 0 outside."""

    memory: SSAValue
    place: Place
    padded: bool = False


class LeafWriter:
    """Appends loops and leaves to a nest; loops are known by their variables' names (``i0``)."""

    def __init__(self, block: Block, location: LocationAttr):
        self.block = block
        self.location = location
        self.loops: dict[str, SSAValue] = {}

    def add(self, op: Operation) -> Operation:
        """Append an op in the innermost open loop."""
        op.location = self.location
        self.block.add_op(op)
        return op

    @contextmanager
    def loop(self, axis: str, extent: int, step: int = 1) -> Generator[SSAValue]:
        """A loop ``i.0`` whose variable is ``i0``; what is appended meanwhile stands in it."""
        loop = ForOp(axis, extent, step)
        self.add(loop)
        name = axis.replace(".", "")
        outer, self.block = self.block, loop.body.block
        self.loops[name] = loop.induction_variable
        try:
            yield loop.induction_variable
        finally:
            self.block = outer
            del self.loops[name]

    def buffer(
        self, name: str, shape: Sequence[int], dtype: DType, scope: str = "register"
    ) -> SSAValue:
        """A buffer of the nest, in registers unless another scope is named."""
        type = MemRefType(scalar_type(dtype), list(shape), memory_space=StringAttr(scope))
        op = memref.AllocOp([], [], type)
        op.memref.name_hint = name
        self.add(op)
        return op.memref

    def leaf(
        self,
        kind: LeafKind,
        axes: Mapping[str, int],
        reads: Sequence[Tile],
        write: Tile,
        compute: Compute,
        *,
        reduce: Sequence[str] = (),
        bounds: Sequence[tuple[str, int]] = (),
    ) -> ComputeOp:
        """Append a leaf over ``axes``; ``compute`` makes the element from what it reads.

        Points with ``0 <= sum < limit`` for each of ``bounds`` take part.
        """
        ivs = {name: number for number, name in enumerate(self.loops)}
        dims = {name: number for number, name in enumerate(axes)}
        names: dict[str, AffineExpr] = {
            **{name: AffineExpr.symbol(number) for name, number in ivs.items()},
            **{name: AffineExpr.dimension(number) for name, number in dims.items()},
        }
        body = Body()
        body.location = self.location
        operands = [tile.memory for tile in reads]
        held = [write.memory] if reduce else []
        arguments = [body.argument(_element(each), each.name_hint) for each in (*operands, *held)]
        region = body.finish([compute(body, *arguments)])
        rank = (len(axes), len(ivs))
        maps = [
            AffineMap(*rank, tuple(_expression(each, names) for each in tile.place))
            for tile in (*reads, write)
        ]
        made = ComputeOp(
            kind,
            axes=list(axes.items()),
            reduce_axes=reduce,
            ivs=list(self.loops.values()),
            inputs=operands,
            outputs=[write.memory],
            maps=maps,
            bounds=AffineMap(*rank, tuple(_expression(each, names) for each, _ in bounds)),
            limits=[limit for _, limit in bounds],
            padded=[tile.padded for tile in reads],
            body=region,
        )
        self.add(made)
        return made

    def fill(self, memory: SSAValue, number: float, dtype: DType) -> ComputeOp:
        """Append a leaf that writes a number to every element of a buffer."""
        axes = dict(zip("ijkl", shape_of(memory), strict=False))

        def compute(body: Body) -> SSAValue:
            return body.constant(number, dtype)

        return self.leaf("map", axes, [], Tile(memory, tuple(axes)), compute)


def shape_of(memory: SSAValue) -> tuple[int, ...]:
    """The sizes of a memref."""
    return tuple(cast("MemRefType[Attribute]", memory.type).get_shape())


def _element(memory: SSAValue) -> Attribute:
    return cast("MemRefType[Attribute]", memory.type).element_type


def _expression(each: AffineExpr | str | int, names: Mapping[str, AffineExpr]) -> AffineExpr:
    """A sum of names and numbers; an expression with names as it is."""
    if isinstance(each, AffineExpr):
        return each
    if isinstance(each, int):
        return AffineExpr.constant(each)
    total: AffineExpr = AffineExpr.constant(0)
    for part in each.split("+"):
        word = part.strip()
        name, _, divisor = word.partition("//")
        term = names[name.strip()] if name.strip() in names else AffineExpr.constant(int(name))
        total = total + (term // int(divisor) if divisor else term)
    return simplify(total)
