"""Ways to declare an op that computes each element from the elements at the same place.

FLOP convention: one per result element for arithmetic and comparisons, and also one for a
transcendental (as Nsight Compute's and PyTorch's counters see source-level operations); data
selection and casts count nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from wia_compiler.base.dtypes import BOOL
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.declaration import (
    Attributes,
    Flops,
    Infer,
    InferenceError,
    OpDeclaration,
    Operands,
    Parameter,
)
from wia_compiler.dialects.wia.formula import Formula
from wia_compiler.dialects.wia.rules import (
    broadcast_shapes,
    describe,
    require_float,
    require_number,
    same_dtype,
)

Kind = Literal["floats", "numbers", "integers", "whole"]
"""What operands an op takes; ``whole`` is integers and bool."""


def require(spec: TensorSpec, op: str, kind: Kind) -> None:
    """Refuse an operand that is not of a kind."""
    if kind == "floats":
        require_float(spec, op)
    elif kind == "numbers":
        require_number(spec, op)
    elif spec.dtype.is_float or (kind == "integers" and spec.dtype == BOOL):
        wanted = "integers" if kind == "integers" else "integers or bool"
        raise InferenceError(
            f"{op} needs {wanted}, found {describe(spec)}", "convert it first: cast(…, i32)"
        )


_WORDS: dict[Kind, str] = {
    "floats": "floats",
    "numbers": "numbers",
    "integers": "integers",
    "whole": "integers or bool",
}


def per_element(count: int) -> Flops:
    """So many operations for each element of the result."""

    def flops(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
        return count * result.num_elements

    return flops


def unary(
    name: str,
    doc: str,
    *parameters: Parameter,
    kind: Kind = "floats",
    formula: Formula | None = None,
    numerics: str = "",
    gives_bool: bool = False,
    check: Callable[[Attributes], None] | None = None,
) -> OpDeclaration:
    """An op of one operand; ``check`` raises ``InferenceError`` where its attributes are wrong."""

    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        operand = operands["input"]
        require(operand, name, kind)
        if check is not None:
            check(attributes)
        return TensorSpec(operand.shape, BOOL if gives_bool else operand.dtype)

    return OpDeclaration(
        name,
        "elementwise",
        (Parameter("input"), *parameters),
        infer,
        per_element(1),
        doc,
        primitive=formula is None,
        formula=formula,
        rule=f"{_WORDS[kind]}; shape of input, {'bool' if gives_bool else 'its dtype'}",
        numerics=numerics,
    )


def of_two(
    name: str, doc: str, operator: str | None, infer: Infer, rule: str, flops: Flops
) -> OpDeclaration:
    """An op of two operands, either of which may be a literal."""
    return OpDeclaration(
        name,
        "elementwise",
        (Parameter("input"), Parameter("other")),
        infer,
        flops,
        doc,
        operator,
        literal_operands=("input", "other"),
        rule=rule,
    )


def binary(
    name: str, doc: str, operator: str | None = None, *, kind: Kind = "numbers"
) -> OpDeclaration:
    """An op of two operands of one dtype, which is that of the result."""

    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        specs = operands.all
        for spec in specs:
            require(spec, name, kind)
        return TensorSpec(broadcast_shapes(specs), same_dtype(specs))

    rule = f"{_WORDS[kind]} of one dtype, which is the result's; shapes broadcast"
    return of_two(name, doc, operator, infer, rule, per_element(1))


def comparison(name: str, doc: str, operator: str) -> OpDeclaration:
    """An op of two operands of one dtype that gives bools; ``eq`` and ``ne`` take bools too."""
    ordered = name not in ("eq", "ne")

    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        specs = operands.all
        if ordered:
            for spec in specs:
                require_number(spec, name)
        same_dtype(specs)
        return TensorSpec(broadcast_shapes(specs), BOOL)

    taken = "numbers" if ordered else "numbers or bool,"
    rule = f"{taken} of one dtype; shapes broadcast; bool"
    return of_two(name, doc, operator, infer, rule, per_element(1))


def logical(name: str, doc: str, operator: str) -> OpDeclaration:
    """An op on bools."""

    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        for spec in operands.all:
            if spec.dtype != BOOL:
                raise InferenceError(
                    f"{name} needs bool, found {describe(spec)}", "compare it first, e.g. x != 0"
                )
        return TensorSpec(broadcast_shapes(operands.all), BOOL)

    names = ("input",) if name == "logical_not" else ("input", "other")
    parameters = tuple(Parameter(each) for each in names)
    rule = "bool; shapes broadcast" if len(names) > 1 else "bool; shape of input"
    return OpDeclaration(
        name, "elementwise", parameters, infer, per_element(0), doc, operator, rule=rule
    )
