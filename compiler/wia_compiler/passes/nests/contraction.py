"""Plans of groups with one matmul or conv2d: loops over its result, a fold, an epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith
from xdsl.ir import BlockArgument
from xdsl.ir.affine import AffineExpr

from wia_compiler.dialects.tile import LeafKind
from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.convolution import conv2d_window
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.nests.anchored import AnchoredNest, accumulator_of, anchors_of
from wia_compiler.passes.nests.body import scalar_type
from wia_compiler.passes.nests.casts import cast_scalar
from wia_compiler.passes.nests.movement import ZERO, Index, broadcast_index, kind_of
from wia_compiler.passes.nests.plan import (
    Access,
    Axis,
    Group,
    LeafPlan,
    NestPlan,
    Register,
    Result,
    fresh_name,
)
from wia_compiler.passes.nests.refusal import NotOneNest

_BATCH_NAMES = "bhgpq"


@dataclass
class Domain:
    """Axes of a contraction, and where it reads its operands and writes its result."""

    axes: list[Axis]
    operands: tuple[Index, Index]
    result: Index
    kind: LeafKind = "contract"
    padded: bool = False
    units: Sequence[str] = ()


class _Axes:
    """Hands out a dimension for each axis longer than 1; ``units`` are the names of the others."""

    def __init__(self) -> None:
        self.made: list[Axis] = []
        self.units: list[str] = []

    def add(self, name: str, size: int, *, inner: bool = False) -> AffineExpr:
        """The index along a new axis: its dimension, or 0 where there is one element."""
        unique = fresh_name([axis.name for axis in self.made], name)
        if size == 1:
            self.units.append(unique)
            return ZERO
        self.made.append(Axis(unique, size, "inner" if inner else "kept"))
        return AffineExpr.dimension(len(self.made) - 1)


def plan_contraction(group: Group) -> tuple[NestPlan, list[Result]]:
    """One nest for a group with a contraction, and the results that do not depend on it.

    ::

        for i.0 in 128, for j.0 in 64:
          acc = register            map acc[i, j] = 0
          contract acc[i, j] += a[i, k] * b[k, j]   over k
          map out[i, j] = max(acc[i, j] + bias[j], 0)
    """
    (op,) = anchors_of(group)
    domain = _matmul_domain(op) if kind_of(op) == "matmul" else _conv2d_domain(op)
    nest = AnchoredNest(group, domain.axes)
    nest.plan.units += domain.units
    register = nest.register(op, "acc", accumulator_of(op))
    nest.fill([register], [0])
    operands = [spec_of(value.type) for value in op.arguments]
    folds_nothing = any(axis.role == "inner" and axis.size == 0 for axis in domain.axes)
    if not folds_nothing and all(spec.num_elements for spec in operands):
        nest.plan.leaves.append(_fold_leaf(nest, op, domain, register))
    nest.anchor(op, register, domain.result)
    return nest.finish({})


def _fold_leaf(nest: AnchoredNest, op: TensorOp, domain: Domain, register: Register) -> LeafPlan:
    reading = nest.read(list(zip(op.arguments, domain.operands, strict=True)))
    if domain.padded:
        _pad(reading.inputs, op, domain)
    body = reading.body
    kind = domain.kind
    if not all(isinstance(value, BlockArgument) for value in reading.roots):
        if kind != "contract" or kind_of(op) != "matmul":
            raise NotOneNest("a convolution reads arrays, not values computed on the way")
        kind = "reduce"  # a sum of products, as any other fold of values computed on the way
    reading.at(op)
    wide = accumulator_of(op)
    dtype = spec_of(op.arguments[0].type).dtype
    if reading.roots[0] is reading.roots[1]:
        # A product of a vector with itself: one input for each operand all the same.
        reading.inputs.append(Access(reading.inputs[0].buffer, reading.inputs[0].index))
        reading.roots[1] = body.argument(reading.roots[0].type, reading.roots[0].name_hint)
    a, b = (cast_scalar(body, value, dtype, wide) for value in reading.roots)
    held = body.argument(scalar_type(wide), register.name)
    if wide.is_float:
        total = body.add(arith.AddfOp(held, body.add(arith.MulfOp(a, b))))
    else:
        total = body.add(arith.AddiOp(held, body.add(arith.MuliOp(a, b))))
    inner = tuple(n for n, axis in enumerate(domain.axes) if axis.role == "inner")
    return LeafPlan(
        kind,
        inner,
        inner,
        reading.inputs,
        [Access(register)],
        body.finish([total]),
        list(dict.fromkeys([op, *reading.ops])),
        multiplies=kind == "reduce",
    )


def _pad(inputs: Sequence[Access], op: TensorOp, domain: Domain) -> None:
    """Let the convolution's input read as 0 outside; its index must be the array's own."""
    own = [access for access in inputs if access.index == domain.operands[0]]
    shape = spec_of(op.arguments[0].type).shape
    if len(own) != 1 or getattr(own[0].buffer, "shape", None) != shape:
        raise NotOneNest("a padded convolution reads an array, not a value computed on the way")
    own[0].padded = True


def _matmul_domain(op: TensorOp) -> Domain:
    a, b = (spec_of(value.type).shape for value in op.arguments)
    result = op.result_spec.shape
    axes = _Axes()
    batch_rank = len(result) - (len(a) > 1) - (len(b) > 1)
    batch = tuple(axes.add(_BATCH_NAMES, size) for size in result[:batch_rank])
    rows = (axes.add("i", a[-2]),) if len(a) > 1 else ()
    columns = (axes.add("j", b[-1]),) if len(b) > 1 else ()
    k = axes.add("k", a[len(a) - 1], inner=True)
    left = (*broadcast_index(batch, a[:-2]), *rows, k)
    right = (*broadcast_index(batch, b[:-2]), k, *columns)
    return Domain(axes.made, (left, right), (*batch, *rows, *columns), units=axes.units)


def _conv2d_domain(op: TensorOp) -> Domain:
    """Output channels are split into groups and channels of one group, so that maps stay linear."""
    w = spec_of(op.arguments[1].type).shape
    stride, padding, dilation = conv2d_window(op.values)
    groups = cast(int, op.values["groups"])
    batch, filters, *size = op.result_spec.shape
    axes = _Axes()
    n = axes.add("n", batch)
    g = axes.add("g", groups)
    f = axes.add("f", filters // groups)
    y, x = axes.add("y", size[0]), axes.add("x", size[1])
    c = axes.add("c", w[1], inner=True)
    r, s = axes.add("r", w[2], inner=True), axes.add("s", w[3], inner=True)
    channel = _plus(g * w[1], c)
    places = [
        _plus(out * stride[axis], tap * dilation[axis]) - padding[axis]
        for axis, (out, tap) in enumerate(((y, r), (x, s)))
    ]
    filter_ = _plus(g * (filters // groups), f)
    windowed = (w[2] != 1 and size[0] != 1) or (w[3] != 1 and size[1] != 1)
    return Domain(
        axes.made,
        ((n, channel, *places), (filter_, c, r, s)),
        (n, filter_, y, x),
        "window" if windowed or any(padding) else "contract",
        any(padding),
        axes.units,
    )


def _plus(a: AffineExpr, b: AffineExpr) -> AffineExpr:
    """A sum without zeros in it."""
    if a == ZERO:
        return b
    return a if b == ZERO else a + b
