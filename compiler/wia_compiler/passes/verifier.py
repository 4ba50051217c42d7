"""What IR of the high level must satisfy after each stage, beyond what its ops check themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.cf import BranchOp, ConditionalBranchOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from wia_compiler.dialects.wia.control import ConditionOp
from wia_compiler.dialects.wia.ops import (
    AnyTensorType,
    ConstantOp,
    DeclareOp,
    FusedOp,
    LiteralType,
    TensorOp,
)
from wia_compiler.passes.decomposing.kept import KEPT
from wia_compiler.passes.decomposing.rows import decomposition_of
from wia_compiler.passes.kernel_function import kernel_function
from wia_compiler.passes.verify_blocks import verify_blocks

HIGH_STAGES = (
    "import",
    "inline",
    "infer-shapes",
    "expand",
    "canonicalize",
    "fold-constants",
    "cse",
    "dce",
    "fusion",
    "decompose",
)
"""The stages of the high level, in order."""


@dataclass(frozen=True)
class Contract:
    """A promise that holds from a stage on; ``broken`` says of an op whether it breaks it."""

    since: str
    promise: str
    broken: Callable[[Operation], bool]


def _has_open_type(op: Operation) -> bool:
    types = [value.type for value in (*op.results, *op.operands)]
    return any(isinstance(each, AnyTensorType | LiteralType) for each in types)


def _is_unused(op: Operation) -> bool:
    pure = isinstance(op, TensorOp | ConstantOp | FusedOp | ConditionOp)
    if pure and all(result.first_use is None for result in op.results):
        return True
    branches = isinstance(op, BranchOp | ConditionalBranchOp)
    blocks = op.successors if branches else ()
    return any(argument.first_use is None for block in blocks for argument in block.args)


def _is_composite(op: Operation) -> bool:
    if not isinstance(op, TensorOp) or op.declaration.name in KEPT:
        return False
    return decomposition_of(op) is not None


def _mixes_anchors(op: Operation) -> bool:
    """A kernel folds rows or contracts, and contracts once."""
    if not isinstance(op, FusedOp):
        return False
    families = [each.declaration.family for each in op.body.block.ops if isinstance(each, TensorOp)]
    contractions = families.count("contraction")
    return contractions > 1 or bool(contractions and "reduction" in families)


HIGH_LEVEL: tuple[Contract, ...] = (
    Contract("inline", "no calls", lambda op: isinstance(op, CallOp)),
    Contract("infer-shapes", "static types", _has_open_type),
    Contract("infer-shapes", "no declarations", lambda op: isinstance(op, DeclareOp)),
    Contract("dce", "every value is used", _is_unused),
    Contract("fusion", "one contraction, or reductions, in a kernel", _mixes_anchors),
    Contract("decompose", "primitive ops only", _is_composite),
)


def verify_high_level(module: ModuleOp, kernel: str, stage: str) -> None:
    """Check the kernel's blocks, and its ops against what the stages up to ``stage`` promise.

    Raises ``VerifyException`` with the op and the promise it breaks.
    """
    if stage not in HIGH_STAGES:
        return
    function: FuncOp = kernel_function(module, kernel)
    passed = HIGH_STAGES[: HIGH_STAGES.index(stage) + 1]
    rows = [row for row in HIGH_LEVEL if row.since in passed]
    verify_blocks(function, typed="infer-shapes" in passed)
    for op in function.body.walk():
        for row in rows:
            if row.broken(op):
                raise VerifyException(f"after {row.since} there are {row.promise}, found {op.name}")
