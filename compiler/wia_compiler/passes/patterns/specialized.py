"""The two sides of a pattern for the shapes and dtypes of one match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from wia_compiler.base.errors import CompileError
from wia_compiler.dialects.types import TensorSpec, spec_of
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.infer_shapes import InferShapes
from wia_compiler.passes.kernel_function import return_of
from wia_compiler.passes.patterns.pattern import Pattern
from wia_compiler.passes.target import ArraySpec
from wia_compiler.reference.interpret import run_module
from wia_compiler.reference.rounding import Array


@dataclass(frozen=True)
class Side:
    """The match or the rewrite of a pattern, with static types."""

    module: ModuleOp
    function: FuncOp

    @property
    def results(self) -> tuple[TensorSpec, ...]:
        """Shapes and dtypes of what it gives."""
        return tuple(spec_of(value.type) for value in return_of(self.function).operands)

    @property
    def ops(self) -> list[TensorOp]:
        """What it computes, in order."""
        return [op for op in self.function.body.block.ops if isinstance(op, TensorOp)]

    def run(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Its results by the reference."""
        return run_module(self.module, self.function.sym_name.data, arrays)

    def copy_ops(
        self, values: Sequence[SSAValue]
    ) -> tuple[list[SSAValue], list[TensorOp | ConstantOp]]:
        """Its results computed from ``values`` by new ops, which stand in no block yet."""
        block = self.function.body.block
        mapped: dict[SSAValue, SSAValue] = dict(zip(block.args, values, strict=True))
        made: list[TensorOp | ConstantOp] = []
        for op in block.ops:
            if isinstance(op, TensorOp | ConstantOp):
                copy = op.clone(mapped)
                copy.results[0].name_hint = op.results[0].name_hint
                made.append(copy)
        return [mapped[value] for value in return_of(self.function).operands], made


def specialize(
    pattern: Pattern, function: FuncOp, specs: Sequence[TensorSpec], context: PassContext
) -> Side:
    """One side of a pattern for free values of these shapes and dtypes.

    Raises ``CompileError`` where an op of it cannot take them.
    """
    copy = function.clone()
    module = ModuleOp([copy])
    arguments = [
        ArraySpec(name, TensorSpec(spec.shape, spec.dtype, name))
        for name, spec in zip(pattern.free_names, specs, strict=True)
    ]
    own = PassContext(pattern.declaration.source, copy.sym_name.data, context.facts)
    InferShapes(tuple(arguments)).run(module, own)
    return Side(module, copy)


def sides(pattern: Pattern, specs: Sequence[TensorSpec], context: PassContext) -> tuple[Side, Side]:
    """Match and rewrite; raises ``CompileError`` at the pattern where they do not give the same
    shapes and dtypes, or where the rewrite cannot take what the match takes."""
    match = specialize(pattern, pattern.declaration.match, specs, context)
    try:
        rewrite = specialize(pattern, pattern.declaration.rewrite, specs, context)
    except CompileError as error:
        fault = error.diagnostics[0]
        raise pattern.fault(
            f"its match takes {listed(pattern, specs)}, its rewrite does not: {fault.message}",
            fault.hint or "write a rewrite that takes whatever its match does",
        ) from None
    for name, before, after in zip(pattern.results, match.results, rewrite.results, strict=True):
        if before != after:
            shown = f"%{name.name_hint}" if name.name_hint else "the result"
            raise pattern.fault(
                f"{shown} is {before} in its match and {after} in its rewrite, for "
                f"{listed(pattern, specs)}",
                "a rewrite keeps the shape and dtype of what it replaces",
            )
    return match, rewrite


def listed(pattern: Pattern, specs: Sequence[TensorSpec]) -> str:
    """``%x: tensor<4x8xf32>, %y: tensor<8xf32>``."""
    pairs = zip(pattern.free_names, specs, strict=True)
    return ", ".join(f"%{name}: {spec}" for name, spec in pairs)
