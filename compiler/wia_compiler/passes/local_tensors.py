"""Tensors that the text makes by their type alone (``let t: tensor<N, f32>;``): zeros."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from wia_compiler.base.dtypes import BOOL
from wia_compiler.dialects.loop_arrays import OutputOp
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.ops import AnyTensorType, ConstantOp, DeclareOp
from wia_compiler.dialects.wia.size import SizeOp
from wia_compiler.passes.declared_sizes import DeclaredSizes
from wia_compiler.passes.kernel_function import entry_of

SetSpec = Callable[[SSAValue, TensorSpec], None]


def place_local_tensors(
    function: FuncOp, sizes: DeclaredSizes, specs: dict[SSAValue, TensorSpec], set_spec: SetSpec
) -> None:
    """Put zeros where sizes are known from the arguments, before blocks are given their types."""
    outputs = [op for op in function.walk() if isinstance(op, OutputOp)]
    if not outputs:
        return
    for op in entry_of(function).ops:
        if isinstance(op, DeclareOp) and op.input in specs:
            sizes.check(op, specs[op.input])
    for output in outputs:
        place_zeros(output, sizes, set_spec)


def place_zeros(output: OutputOp, sizes: DeclaredSizes, set_spec: SetSpec) -> None:
    """``%t = loop.output "t" [%N] "f32"`` → ``%t = wia.constant 0.0 : tensor<8xf32>``.

    One whose sizes or dtype are open stays: the nest that stores to it says what they are.
    """
    dtype = output.declared_dtype
    shape = [_size(each, sizes) for each in output.sizes]
    known = tuple(size for size in shape if size is not None)
    block = output.parent
    if dtype is None or not shape or len(known) < len(shape) or block is None:
        return
    zero = ConstantOp(False if dtype is BOOL else 0.0 if dtype.is_float else 0, AnyTensorType())
    zero.location = output.location
    zero.result.name_hint = output.result.name_hint or output.parameter.data
    block.insert_op_before(zero, output)
    set_spec(zero.result, TensorSpec(known, dtype, output.parameter.data))
    output.result.replace_all_uses_with(zero.result)
    output.detach()
    output.erase()


def _size(value: SSAValue, sizes: DeclaredSizes) -> int | None:
    match value.owner:
        case ConstantOp() as op if isinstance(op.number, int):
            return op.number
        case SizeOp() as op:
            return sizes.size(op)
        case _:
            return None
