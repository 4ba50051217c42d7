"""Writes nests leaf by leaf, for plans whose loops no single form describes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import cast

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, LocationAttr, MemRefType, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from wia_compiler.base.dtypes import DType
from wia_compiler.dialects.tile import ComputeOp, ForOp, LeafKind
from wia_compiler.passes.affine import simplify
from wia_compiler.passes.nests.body import Body, scalar_type

Place = Sequence[AffineExpr | str | int]
"""An index by the names of axes and loops: ``("(i0 + i) // 4", "k")``; numbers, expressions too."""
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

    def index(self, text: str) -> SSAValue:
        """What an index is in loops' variables and numbers, as code: ``"i0 * 4 + 63"``."""
        return self._index(_parsed(text))

    def _index(self, node: ast.expr) -> SSAValue:
        match node:
            case ast.Name(name):
                return self.loops[name]
            case ast.Constant(int(number)):
                made = arith.ConstantOp(IntegerAttr(number, IndexType()))
            case ast.BinOp(left, op, right) if type(op) in _ARITHMETIC:
                made = _ARITHMETIC[type(op)](self._index(left), self._index(right))
            case _:
                raise ValueError(f"no index: {ast.unparse(node)}")
        return self.add(made).results[0]

    @contextmanager
    def where(self, *conditions: tuple[str, str, str]) -> Generator[None]:
        """What is appended meanwhile runs where one of ``conditions`` holds, always without any.

        ``("j0", "slt", "i0 + 16")`` compares two indices.
        """
        if not conditions:
            yield
            return
        found: SSAValue | None = None
        for left, predicate, right in conditions:
            test = arith.CmpiOp(self.index(left), self.index(right), predicate)
            holds = self.add(test).results[0]
            found = holds if found is None else self.add(arith.OrIOp(found, holds)).results[0]
        assert found is not None
        outer, inside = self.block, Block()
        self.block = inside
        yield
        self.add(scf.YieldOp())
        self.block = outer
        self.add(scf.IfOp(found, [], Region(inside)))

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
    """What a text says in names and numbers, with ``+ - * // %``; an expression as it is."""
    if isinstance(each, AffineExpr):
        return each
    if isinstance(each, int):
        return AffineExpr.constant(each)
    return simplify(_value(_parsed(each), names))


@cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text.strip(), mode="eval").body


def _value(node: ast.expr, names: Mapping[str, AffineExpr]) -> AffineExpr:
    match node:
        case ast.Name(name):
            return names[name]
        case ast.Constant(int(number)):
            return AffineExpr.constant(number)
        case ast.BinOp(left, op, right) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](_value(left, names), _value(right, names))
        case _:
            raise ValueError(f"no index: {ast.unparse(node)}")


_OPERATIONS: Mapping[type[ast.operator], Callable[[AffineExpr, AffineExpr], AffineExpr]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left + right * -1,
    ast.Mult: lambda left, right: left * right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: lambda left, right: left % right,
}
_ARITHMETIC: Mapping[type[ast.operator], Callable[[SSAValue, SSAValue], Operation]] = {
    ast.Add: arith.AddiOp,
    ast.Sub: arith.SubiOp,
    ast.Mult: arith.MuliOp,
}
