"""Accesses of point code: loads, stores and local buffers, checked where they are not proven."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import MemRefType, StringAttr, UnitAttr
from xdsl.ir import Operation, Region, SSAValue

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.dialects.loop_arrays import LocalOp
from wia_compiler.dialects.loop_elements import LoadOp, StoreOp
from wia_compiler.dialects.tile_check import CheckOp
from wia_compiler.dialects.tile_points import axis_loop
from wia_compiler.dialects.types import spec_of
from wia_compiler.passes.loops.values import integer_of
from wia_compiler.passes.nests.body import scalar_type
from wia_compiler.passes.nests.point_body import INDEX, PointBody


class PointAccess:
    """Writes accesses of a nest to ``body``.

    ``values`` and ``buffers`` map scalars and arrays of the nest to what they are in point code,
    ``checks`` numbers the checks, ``debug`` checks every access, ``axis`` gives a loop a name.
    """

    def __init__(
        self, body: PointBody, checks: Iterator[int], debug: bool, axis: Callable[[str], str]
    ):
        self.body = body
        self.checks = checks
        self.debug = debug
        self.axis = axis
        self.values: dict[SSAValue, SSAValue] = {}
        self.buffers: dict[SSAValue, SSAValue] = {}

    def _add(self, op: Operation) -> None:
        op.location = self.body.location
        self.body.block.add_op(op)

    def index(self, value: SSAValue) -> SSAValue:
        """A whole number of the nest as an ``index``."""
        number = integer_of(value)
        if number is not None:
            return self.body.index(number)
        made = self.values[value]
        if isinstance(made.owner, arith.IndexCastOp) and made.owner.input.type == INDEX:
            return made.owner.input
        return self.body.to_index(made, spec_of(value.type).dtype)

    def load(self, op: LoadOp) -> None:
        """Read an element; 0 where a check fails."""
        indices = [self.index(each) for each in op.indices]
        array, dtype = self.buffers[op.array], spec_of(op.result.type).dtype
        inside = self._checked(op, indices)
        if inside is None:
            loaded = self.body.add(memref.LoadOp.get(array, indices))
        else:
            zero = self.body.constant(0, dtype)
            with self.body.region() as taken:
                self._add(scf.YieldOp(self.body.add(memref.LoadOp.get(array, indices))))
            with self.body.region() as skipped:
                self._add(scf.YieldOp(zero))
            branch = scf.IfOp(inside, [scalar_type(dtype)], Region(taken), Region(skipped))
            loaded = self.body.add(branch)
        loaded.name_hint = op.result.name_hint or op.array.name_hint
        self.values[op.result] = loaded

    def store(self, op: StoreOp) -> None:
        """Set an element; nothing where a check fails."""
        indices = [self.index(each) for each in op.indices]
        store = memref.StoreOp.get(self.values[op.value], self.buffers[op.array], indices)
        inside = self._checked(op, indices)
        if inside is None:
            self._add(store)
            return
        with self.body.region() as taken:
            self._add(store)
            self._add(scf.YieldOp())
        self._add(scf.IfOp(inside, [], Region(taken)))

    def _checked(self, op: LoadOp | StoreOp, indices: Sequence[SSAValue]) -> SSAValue | None:
        """A check of an access that is not proven, and whether it lies inside; else ``None``."""
        if op.is_proven and not self.debug:
            return None
        sizes = spec_of(op.array.type).shape
        inside = self.body.constant(True, DTYPES["bool"])
        for place, (index, size) in enumerate(zip(indices, sizes, strict=True)):
            below = self.body.add(arith.CmpiOp(index, self.body.index(size), "ult"))
            inside = self.body.add(arith.AndIOp(inside, below)) if place else below
        self.check(inside, indices, op.array.name_hint or "an array", sizes)
        return inside

    def check(
        self, condition: SSAValue, indices: Sequence[SSAValue], name: str, sizes: Sequence[int]
    ) -> None:
        """Note a failure where a condition does not hold."""
        self._add(CheckOp(condition, indices, name, sizes, next(self.checks)))

    def local(self, op: LocalOp) -> None:
        """A buffer in registers, filled with what it starts from."""
        spec = spec_of(op.result.type)
        register = MemRefType(
            scalar_type(spec.dtype), list(spec.shape), memory_space=StringAttr("register")
        )
        buffer = memref.AllocaOp.get(register.element_type, 0, list(spec.shape))
        buffer.memref._type = register  # pyright: ignore[reportPrivateUsage]
        buffer.properties.pop("alignment", None)
        self._add(buffer)
        buffer.memref.name_hint = op.result.name_hint
        self.buffers[op.result] = buffer.memref
        if spec.num_elements:
            self._fill(buffer.memref, spec.shape, self.values[op.start], [])

    def _fill(
        self, buffer: SSAValue, shape: Sequence[int], value: SSAValue, at: list[SSAValue]
    ) -> None:
        if len(at) == len(shape):
            self._add(memref.StoreOp.get(value, buffer, at))
            return
        with self.body.region([INDEX]) as block:
            self._fill(buffer, shape, value, [*at, block.args[0]])
            self._add(scf.YieldOp())
        zero, one, end = (self.body.index(each) for each in (0, 1, shape[len(at)]))
        loop = axis_loop(scf.ForOp(zero, end, one, [], Region(block)), self.axis("fill"))
        loop.attributes["wia.independent"] = UnitAttr()
        self._add(loop)
