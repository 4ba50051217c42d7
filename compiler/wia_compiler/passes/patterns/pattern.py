"""A pattern as the matcher needs it: its ops, its literals, the values that leave it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from wia_compiler.base.dtypes import DType
from wia_compiler.base.errors import CompileError, Diagnostic
from wia_compiler.dialects.patterns import PatternDeclaration
from wia_compiler.dialects.wia.fuse_match import FuseMatchOp
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp
from wia_compiler.passes.kernel_function import return_of
from wia_compiler.reference.meaning import evaluate
from wia_compiler.reference.rounding import Array


@dataclass(frozen=True)
class Pattern:
    """One ``pattern`` block, read once: what its match consists of and how its rewrite is meant.

    Raises ``CompileError`` where the block can never fire as it stands.
    """

    declaration: PatternDeclaration

    def __post_init__(self) -> None:
        if not self.ops:
            raise self.fault("its match has no op", "write at least one op, such as %y = relu(%x)")
        for value, name in zip(self.free, self.free_names, strict=True):
            if value.first_use is None:
                raise self.fault(
                    f"%{name} stands in its rewrite alone",
                    "a rewrite is made of values that the match names",
                )
        for value in self.results:
            if value.owner not in self.ops:
                name = value.name_hint or "a value"
                raise self.fault(
                    f"%{name} is no result of an op of its match",
                    "let the last names of match and rewrite be results of ops",
                )
        if self.kernel is not None:
            self._check_kernel(self.kernel)

    @property
    def name(self) -> str:
        """What the text calls it."""
        return self.declaration.name

    @cached_property
    def free(self) -> tuple[SSAValue, ...]:
        """The free values of the match; those of the rewrite stand in the same order."""
        return tuple(self.declaration.match.body.block.args)

    @cached_property
    def free_names(self) -> tuple[str, ...]:
        """What the text calls the free values, without ``%``."""
        return tuple(v.name_hint or f"value{n}" for n, v in enumerate(self.free))

    @cached_property
    def ops(self) -> tuple[TensorOp, ...]:
        """The ops to look for, in order of the text; what is made of literals alone is none."""
        ops = self.declaration.match.body.block.ops
        return tuple(op for op in ops if isinstance(op, TensorOp) and not is_literal(op.result))

    @property
    def root(self) -> TensorOp:
        """The op at which a search begins: the last."""
        return self.ops[-1]

    @cached_property
    def results(self) -> tuple[SSAValue, ...]:
        """The values that leave the match and that the rewrite gives anew."""
        return tuple(return_of(self.declaration.match).operands)

    @cached_property
    def internal(self) -> tuple[TensorOp, ...]:
        """Ops whose results nothing but the match may read."""
        return tuple(op for op in self.ops if op.result not in self.results)

    @cached_property
    def kernel(self) -> FuseMatchOp | None:
        """The ``fused_…`` that the rewrite consists of; ``None`` where it is ops."""
        found = [op for op in _body(self.declaration.rewrite) if isinstance(op, FuseMatchOp)]
        return found[0] if found else None

    @property
    def title(self) -> str:
        """``ConvBiasRelu: conv2d, add, relu``."""
        return f"{self.name}: {', '.join(op.declaration.name for op in self.ops)}"

    @property
    def rewrite_names(self) -> list[str]:
        """The names of the ops that the rewrite makes."""
        ops = _body(self.declaration.rewrite)
        return [op.declaration.name for op in ops if isinstance(op, TensorOp)]

    def fault(self, message: str, hint: str) -> CompileError:
        """The error that says, at the pattern's name, why the pattern may not be used."""
        declared = self.declaration
        text = f"pattern {declared.name!r} cannot be used: {message}"
        return CompileError([Diagnostic(text, declared.span, hint, declared.source)])

    def _check_kernel(self, kernel: FuseMatchOp) -> None:
        name = kernel.kernel_name.data
        values = self.declaration.rewrite.body.block.args
        missing = [
            f"%{value.name_hint}" for value in values if value not in tuple(kernel.arguments)
        ]
        if missing:
            raise self.fault(
                f"{name} is not given {', '.join(missing)}, which its match reads",
                f"pass every free value: {name}({', '.join('%' + n for n in self.free_names)})",
            )
        if len(_body(self.declaration.rewrite)) > 1:
            raise self.fault(
                f"{name} stands beside other ops in its rewrite",
                f"{name} is all that the match computes, as one kernel: write it alone",
            )


def _body(function: FuncOp) -> list[Operation]:
    """The ops of a function but for its return."""
    return list(function.body.block.ops)[:-1]


def is_literal(value: SSAValue) -> bool:
    """Whether a value of a pattern is made of literals alone."""
    if isinstance(value.owner, ConstantOp):
        return True
    op = value.owner
    return isinstance(op, TensorOp) and all(is_literal(each) for each in op.arguments)


def literal_value(value: SSAValue, dtype: DType) -> Array:
    """The number that a literal value of a pattern is in a dtype."""
    op = value.owner
    if isinstance(op, ConstantOp):
        with np.errstate(all="ignore"):
            return np.asarray(op.number).astype(dtype.numpy)
    if not isinstance(op, TensorOp):
        raise ValueError("only constants and ops on them are literal")
    operands = zip(op.given, op.arguments, strict=True)
    return evaluate(
        op.declaration.name,
        {name: literal_value(each, dtype) for name, each in operands},
        op.values,
    )
