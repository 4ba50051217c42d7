"""Scalar ops of point code: as a leaf's body, in blocks that change as regions are entered."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from wia_compiler.base.dtypes import I64, DType
from wia_compiler.passes.nests.body import Body, scalar_type

INDEX = IndexType()


class PointBody(Body):
    """Appends to the block that was entered last; constants stand at the start of the function."""

    def __init__(self, entry: Block):
        super().__init__()
        self.entry = self.block = entry
        self._last_constant: Operation | None = None
        self._indices: dict[int, SSAValue] = {}

    def constant(self, number: bool | int | float, dtype: DType) -> SSAValue:
        """A number in a dtype; equal constants of the function are one op."""
        with self._at_start():
            return super().constant(number, dtype)

    def index(self, number: int) -> SSAValue:
        """A constant of type ``index``."""
        if number not in self._indices:
            with self._at_start():
                made = self.add(arith.ConstantOp(IntegerAttr(number, INDEX)))
            self._indices[number] = made
        return self._indices[number]

    @contextmanager
    def _at_start(self) -> Generator[None]:
        """Let what is made go in front of everything but earlier constants."""
        here, self.block = self.block, Block()
        try:
            yield
        finally:
            made, self.block = self.block, here
            for op in list(made.ops):
                op.detach()
                first = self.entry.first_op
                if self._last_constant is not None:
                    self.entry.insert_op_after(op, self._last_constant)
                elif first is not None:
                    self.entry.insert_op_before(op, first)
                else:
                    self.entry.add_op(op)
                self._last_constant = op

    @contextmanager
    def region(self, types: Sequence[Attribute] = ()) -> Generator[Block]:
        """A new block that ops go to."""
        here, self.block = self.block, Block(arg_types=types)
        try:
            yield self.block
        finally:
            self.block = here

    def to_index(self, value: SSAValue, dtype: DType) -> SSAValue:
        """A whole number as an ``index``."""
        if dtype.kind == "uint":
            value = self.add(arith.ExtUIOp(value, scalar_type(I64)))  # pyright: ignore[reportArgumentType]
        return self.add(arith.IndexCastOp(value, INDEX))

    def from_index(self, value: SSAValue) -> SSAValue:
        """An ``index`` as an i64."""
        return self.add(arith.IndexCastOp(value, scalar_type(I64)))
