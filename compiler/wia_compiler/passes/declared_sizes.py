"""Checks the types that a kernel's text gives its parameters against what came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.ir import Operation

from wia_compiler.base.signature import DeclaredType
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.ops import DeclareOp
from wia_compiler.dialects.wia.size import SizeOp

Fault = Callable[[Operation, str, "str | None"], None]


@dataclass
class DeclaredSizes:
    """Named sizes that were met so far, by scope and name, with the axis that fixed each."""

    kernel: str
    fault: Fault
    sizes: dict[tuple[int, str], tuple[int, str]] = field(
        default_factory=dict[tuple[int, str], tuple[int, str]]
    )

    def check(self, op: DeclareOp, spec: TensorSpec) -> None:
        """Compare a value's spec with the type that ``op`` declares; faults name the axis."""
        name = self._name(op)
        dims, dtype = op.declared_dims, op.declared_dtype
        if dtype is not None and spec.dtype != dtype:
            self.fault(
                op,
                f"{name} is declared {DeclaredType(dims, dtype)}, found {spec}",
                f"convert it to {dtype}, or declare it {spec.dtype}",
            )
        if dims is None:
            return
        if len(dims) != spec.rank:
            self.fault(
                op,
                f"{name} is declared with {_axes(len(dims))}, {DeclaredType(dims, dtype)}, "
                f"found {_axes(spec.rank)}, {spec}",
                "reshape it, or declare it tensor to take any rank",
            )
            return
        for axis, (dim, size) in enumerate(zip(dims, spec.shape, strict=True)):
            self._check_axis(op, name, axis, dim, size)

    def size(self, op: SizeOp) -> int | None:
        """The size that a name stands for in its scope, as far as declarations were checked."""
        found = self.sizes.get((op.scope.value.data, op.size.data))
        return None if found is None else found[0]

    def _check_axis(
        self, op: DeclareOp, name: str, axis: int, dim: int | str | None, size: int
    ) -> None:
        if isinstance(dim, int) and dim != size:
            hint = "pass an array of the declared size, or declare the size by a name or ?"
            self.fault(op, f"axis {axis} of {name} is declared {dim}, found size {size}", hint)
        if not isinstance(dim, str):
            return
        here = f"axis {axis} of {name}"
        first, place = self.sizes.setdefault((op.scope.value.data, dim), (size, here))
        if first != size:
            self.fault(
                op,
                f"size {dim} is {first} on {place}, and {size} on {here}",
                f"axes that share the name {dim} have one size",
            )

    def _name(self, op: DeclareOp) -> str:
        kernel = op.kernel.data
        return op.parameter.data if kernel == self.kernel else f"{op.parameter.data} of {kernel}"


def _axes(count: int) -> str:
    return "1 axis" if count == 1 else f"{count} axes"
