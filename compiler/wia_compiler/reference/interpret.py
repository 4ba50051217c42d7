"""Runs a kernel op by op on numpy, from the front end's IR or from any later high-level stage.

Blocks are followed as control goes: a condition is read when its branch is reached. A loop that
does not end runs until it is interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.cf import BranchOp, ConditionalBranchOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from wia_compiler.base.dtypes import BOOL, DTYPES, DType
from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.types import dtype_of, spec_of
from wia_compiler.dialects.wia.control import ConditionOp
from wia_compiler.dialects.wia.literals import literal_dtype
from wia_compiler.dialects.wia.ops import (
    AnyTensorType,
    ConstantOp,
    DeclareOp,
    FusedOp,
    LiteralType,
    TensorOp,
    YieldOp,
)
from wia_compiler.reference.loops import run_loop_nest
from wia_compiler.reference.meaning import evaluate
from wia_compiler.reference.rounding import Array, dtype_of_array


class HasModule(Protocol):
    """What the front end imports: anything whose ``module`` holds one function a kernel."""

    @property
    def module(self) -> ModuleOp:
        """The functions."""
        ...


@dataclass(frozen=True)
class Literal:
    """A value made of literals alone: an array once the dtype it takes is known.

    ``number`` is what the text writes, where it is one literal.
    """

    materialize: Callable[[DType], Array]
    number: bool | int | float | None = None


Value: TypeAlias = "Array | Literal"


def run(imported: HasModule, kernel: str, arrays: Sequence[Any]) -> tuple[Array, ...]:
    """The results of a kernel, in the order of its outputs.

    ``arrays`` are its inputs in order, of numpy dtypes that the language has; a Python number is
    taken as the dtype that the kernel declares for that parameter.
    """
    return run_module(imported.module, kernel, arrays)


def run_module(
    module: ModuleOp,
    kernel: str,
    arrays: Sequence[Any],
    *,
    watch: Callable[[Operation], None] | None = None,
) -> tuple[Array, ...]:
    """The results of the function ``kernel`` of a high-level module, specialised or not.

    ``watch`` is told of every op that runs, as often as it does.
    """
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    types = functions[kernel].function_type.inputs.data
    inputs = [_argument(array, type) for array, type in zip(arrays, types, strict=True)]
    results = _Interpreter(functions, watch).call(kernel, inputs)
    return tuple(_array(result, kernel) for result in results)


def _argument(value: Any, type: Attribute) -> Array:
    if isinstance(type, AnyTensorType):
        return np.asarray(value)
    return np.asarray(value, dtype=dtype_of(type).numpy)


def _array(value: Value, name: str) -> Array:
    if isinstance(value, Literal):
        raise TypeError(f"{name} gives a literal that has met no dtype: write cast(1.0, f32)")
    return np.array(value, order="C")


@dataclass(frozen=True)
class _Interpreter:
    functions: Mapping[str, FuncOp]
    watch: Callable[[Operation], None] | None = None

    def call(self, name: str, arguments: Sequence[Value]) -> list[Value]:
        return self._run(self.functions[name].body, arguments)

    def _run(self, region: Region, arguments: Sequence[Value]) -> list[Value]:
        """Follow the blocks of a function, or of a kernel, from the first to what it returns."""
        values: dict[SSAValue, Value] = {}
        block = region.blocks.first
        while block is not None:
            values.update(zip(block.args, arguments, strict=True))
            for op in block.ops:
                operands = [values[operand] for operand in op.operands]
                if self.watch is not None:
                    self.watch(op)
                if isinstance(op, ReturnOp | YieldOp):
                    return operands
                if isinstance(op, BranchOp | ConditionalBranchOp):
                    arguments, block = _followed(op, operands)
                    break
                values.update(zip(op.results, self._results(op, operands), strict=True))
            else:
                break
        raise ValueError("a block of the high level ends with a branch, func.return or wia.yield")

    def _results(self, op: Operation, operands: list[Value]) -> list[Value]:
        match op:
            case TensorOp():
                return [_tensor_op(op, operands)]
            case ConstantOp():
                return [_constant(op)]
            case DeclareOp():
                return [_declared(operands[0], op.declared_dtype)]
            case FusedOp():
                return self._run(op.body, operands)
            case NestOp():
                return list(run_loop_nest(op, [_array(each, op.name) for each in operands]))
            case ConditionOp():
                return [_condition(operands[0])]
            case CallOp():
                return self.call(op.callee.string_value(), operands)
            case _:
                raise TypeError(f"no meaning on the high level for {op.name}")


def _followed(
    op: BranchOp | ConditionalBranchOp, operands: list[Value]
) -> tuple[list[Value], Block]:
    """What a branch passes on, and to which block."""
    if isinstance(op, BranchOp):
        return operands, op.successor
    taken = bool(_array(operands[0], "a condition"))
    then = 1 + len(op.then_arguments)
    return (operands[1:then], op.then_block) if taken else (operands[then:], op.else_block)


def _condition(value: Value) -> Array:
    if isinstance(value, Literal) and not isinstance(value.number, bool):
        raise TypeError("numbers that a loop counts have no dtype yet: specialise the kernel first")
    array = value.materialize(BOOL) if isinstance(value, Literal) else value
    if array.size != 1:
        raise TypeError(f"a condition is one bool, found an array of shape {array.shape}")
    return array.reshape(())


def _constant(op: ConstantOp) -> Value:
    def splat(dtype: DType) -> Array:
        # Numbers beyond a dtype are refused when a kernel is compiled; here integers wrap.
        wide = np.asarray(op.number)
        return wide.astype(dtype.numpy)

    if isinstance(op.result.type, LiteralType | AnyTensorType):
        return Literal(splat, op.number)
    spec = spec_of(op.result.type)
    return np.broadcast_to(splat(spec.dtype), spec.shape)


def _declared(value: Value, dtype: DType | None) -> Value:
    return value.materialize(dtype) if isinstance(value, Literal) and dtype is not None else value


def _tensor_op(op: TensorOp, operands: Sequence[Value]) -> Value:
    declaration, attributes = op.declaration, op.values
    by_name = dict(zip(op.given, operands, strict=True))

    def compute(dtype: DType) -> Array:
        arrays = {
            name: value.materialize(dtype) if isinstance(value, Literal) else value
            for name, value in by_name.items()
        }
        return evaluate(declaration.name, arrays, attributes)

    if not by_name:
        return evaluate(declaration.name, {}, attributes)
    if declaration.name == "cast" and isinstance(by_name["input"], Literal):
        return by_name["input"].materialize(DTYPES[str(attributes["dtype"])])
    dtypes = {
        name: None if isinstance(value, Literal) else dtype_of_array(value)
        for name, value in by_name.items()
    }
    dtype = literal_dtype(declaration, dtypes)
    return Literal(compute) if dtype is None else compute(dtype)
