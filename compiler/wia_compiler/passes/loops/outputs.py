"""Outputs that a nest is the first to write: their shape and dtype, then zeros in their place."""

from __future__ import annotations

from xdsl.ir import SSAValue

from wia_compiler.base.dtypes import BOOL, I64, DType
from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.loop_arrays import OutputOp
from wia_compiler.dialects.loop_elements import StoreOp
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.ops import AnyTensorType, ConstantOp
from wia_compiler.passes.loops.access_ranges import stored_shape
from wia_compiler.passes.loops.inference import Inference
from wia_compiler.passes.loops.values import integer_of


def type_output(
    nest: NestOp, position: int, output: OutputOp, dtype: DType | None, inference: Inference
) -> None:
    """``%C = loop.output "C" [%M]`` becomes ``%C = wia.constant 0.0 : tensor<8xf32>``.

    ``dtype`` is that of the elements that the nest stores, where the text gives none. Without sizes
    in the text the shape is the smallest that holds every index stored to; where that depends on
    data, the text must say it.
    """
    name = output.parameter.data
    argument = nest.body.block.args[position]
    if dtype is None:
        hint = f"write it: output {name}: tensor<…, f32>"
        stored = any(isinstance(op, StoreOp) and op.array is argument for op in nest.walk())
        why = "only numbers of the text are stored to it" if stored else "nothing is stored to it"
        inference.fault(output, f"the dtype of {name} is not known: {why}", hint)
        return
    shape = _declared_shape(output, inference) if output.sizes else stored_shape(nest, argument)
    if shape is None:
        return
    if isinstance(shape, str):
        hint = f"write it: output {name}: tensor<M, N, {dtype}>"
        inference.fault(output, f"the shape of {name} is not known: {shape}", hint)
        return
    spec = TensorSpec(shape, dtype, name)
    zero = _zero(output, spec, inference)
    nest.operands[position] = zero
    inference.set_spec(argument, spec)
    if output.result.first_use is None:
        output.detach()
        output.erase()


def _declared_shape(output: OutputOp, inference: Inference) -> tuple[int, ...] | None:
    shape: list[int] = []
    for place in range(len(output.sizes)):
        if output.operands[place] in inference.literals:
            typed = inference.typed(output.operands[place], I64, "a size")
            if typed is None:
                return None
            output.operands[place] = typed
        size = integer_of(output.operands[place])
        if size is None:
            return None
        shape.append(size)
    return tuple(shape)


def _zero(output: OutputOp, spec: TensorSpec, inference: Inference) -> SSAValue:
    number = False if spec.dtype is BOOL else 0.0 if spec.dtype.is_float else 0
    zero = ConstantOp(number, AnyTensorType())
    zero.location = output.location
    zero.result.name_hint = spec.label
    block = output.parent
    assert block is not None
    block.insert_op_after(zero, output)
    inference.set_spec(zero.result, spec)
    return zero.result
