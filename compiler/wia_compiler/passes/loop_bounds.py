"""Bounds of loops over whole tensors become i64 scalars."""

from __future__ import annotations

from xdsl.ir import SSAValue

from wia_compiler.base.dtypes import I64
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.bound import BoundOp
from wia_compiler.dialects.wia.ops import make_op
from wia_compiler.passes.loops.inference import Inference


def type_bound(op: BoundOp, inference: Inference) -> None:
    """``%1 = wia.bound %n`` → ``%1 = wia.cast %n {dtype = "i64"}``, or %n where it is one already.

    What is no whole number is a fault, after which the bound counts as an i64 all the same.
    """
    value: SSAValue | None = op.input
    if value in inference.literals:
        value = inference.typed(value, I64, op.what.data)
    spec = inference.specs.get(value) if value is not None else None
    if value is None or spec is None or not _is_whole_number(op, spec, inference):
        inference.set_spec(op.result, TensorSpec((), I64, op.what.data))
        return
    if spec.dtype is not I64:
        cast = make_op("cast", [value], {"dtype": "i64"}, location=op.location)
        block = op.parent
        assert block is not None
        block.insert_op_before(cast, op)
        cast.result.name_hint = op.result.name_hint
        inference.set_spec(cast.result, TensorSpec((), I64, spec.label))
        value = cast.result
    op.result.replace_all_uses_with(value)
    op.detach()
    op.erase()


def _is_whole_number(op: BoundOp, spec: TensorSpec, inference: Inference) -> bool:
    if spec.rank:
        hint = "name one element, or fold it: reduce_max(x)"
        inference.fault(op, f"{op.what.data} is one whole number, found {spec}", hint)
    elif not spec.dtype.is_integer:
        found = f"{op.what.data} is a whole number, found {spec.dtype}"
        inference.fault(op, found, "convert it: cast(…, i64)")
    else:
        return True
    return False
