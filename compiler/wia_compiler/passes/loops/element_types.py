"""The types of loads, stores and local arrays of a nest."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Operation, SSAValue

from wia_compiler.base.dtypes import I64, DType
from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.loop_arrays import LocalOp
from wia_compiler.dialects.loop_elements import LoadOp, StoreOp
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.passes.loops.inference import Inference, narrowest
from wia_compiler.passes.loops.operands import declared_rank
from wia_compiler.passes.loops.values import integer_of


class ElementTypes:
    """``elements`` are the dtypes of arrays, also of those that only their nest tells."""

    def __init__(self, nest: NestOp, inference: Inference):
        self.nest = nest
        self.inference = inference
        self.elements: Mapping[SSAValue, DType] = {}

    def load(self, op: LoadOp) -> None:
        """The element's dtype is its array's."""
        self._indices(op)
        dtype = self._element(op, op.array)
        if dtype is not None:
            name = op.array.name_hint or "an array"
            self.inference.set_spec(op.result, TensorSpec((), dtype, f"an element of {name}"))

    def store(self, op: StoreOp) -> None:
        """What is stored has the dtype of the array."""
        self._indices(op)
        dtype = self._element(op, op.array)
        if dtype is None:
            return
        name = op.array.name_hint or "the array"
        self.inference.fit(op, 0, dtype, name, f"{name} holds {dtype}")

    def _element(self, op: LoadOp | StoreOp, array: SSAValue) -> DType | None:
        """The dtype of an array's elements, after its rank was compared with the indices."""
        spec = self.inference.specs.get(array)
        rank = spec.rank if spec is not None else declared_rank(array, self.nest)
        name = array.name_hint or "the array"
        if rank is not None and rank != len(op.indices):
            shown = "1 index" if len(op.indices) == 1 else f"{len(op.indices)} indices"
            axes = "1 axis" if rank == 1 else f"{rank} axes"
            described = axes if spec is None else f"{axes}: {spec}"
            hint = f"write {name}[{', '.join('ijklmn'[:rank])}]" if rank else "use its name alone"
            self.inference.fault(op, f"{shown} for {name!r}, which has {described}", hint)
            return None
        return self.elements.get(array)

    def _indices(self, op: LoadOp | StoreOp) -> None:
        first = len(op.operands) - len(op.indices)
        for position in range(len(op.indices)):
            self.whole(op, first + position, "an index")

    def whole(self, op: Operation, position: int, what: str) -> None:
        """Make an operand an integer scalar: a literal is i64."""
        value = op.operands[position]
        if value in self.inference.literals:
            typed = self.inference.typed(value, I64, what)
            if typed is not None:
                op.operands[position] = typed
            return
        spec = self.inference.specs.get(value)
        if spec is None:
            return
        if spec.rank or not spec.dtype.is_integer:
            name = f"{spec.label}: " if spec.label else ""
            self.inference.fault(
                narrowest(op, value),
                f"{what} is a whole number, found {name}{spec if spec.rank else spec.dtype}",
                "convert it: cast(…, i64)",
            )

    def local(self, op: LocalOp) -> None:
        """A local array has sizes that are known here."""
        for position in range(len(op.sizes)):
            self.whole(op, position, "a size")
        self.inference.fit(
            op, len(op.sizes), op.element_dtype, op.result.name_hint or "the tensor", ""
        )
        sizes = [integer_of(size) for size in op.sizes]
        name = op.result.name_hint or "a local tensor"
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            hint = "write numbers, or named sizes of the parameters"
            self.inference.fault(
                op, f"the sizes of {name} are not known when the kernel is compiled", hint
            )
            return
        if any(size < 0 for size in known):
            self.inference.fault(op, f"{name} has a size below 0: {known}", None)
            return
        self.inference.set_spec(op.result, TensorSpec(tuple(known), op.element_dtype, name))
