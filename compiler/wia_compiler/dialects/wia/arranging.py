"""Ways to declare an op that arranges elements anew and is written in other such ops."""

from __future__ import annotations

from typing import Any

from wia_compiler.dialects.types import Value
from wia_compiler.dialects.wia.declaration import (
    Access,
    Attributes,
    Infer,
    InferenceError,
    OpDeclaration,
    Parameter,
)
from wia_compiler.dialects.wia.formula import Algebra, Formula
from wia_compiler.dialects.wia.movement import free


def cut(value: Any, axis: int, start: int, size: int, a: Algebra[Any]) -> Any:
    """``size`` elements of an axis from ``start``."""
    none: tuple[Value, ...] = (None,) * axis
    return a.op("slice", value, starts=(*none, start), stops=(*none, start + size))


def whole_attribute(attributes: Attributes, name: str, op: str) -> int:
    value = attributes[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise InferenceError(
            f"{op}'s {name} is a whole number, found {value!r}",
            "write it as a number, without a point",
        )
    return value


def arranged(
    name: str,
    doc: str,
    infer: Infer,
    formula: Formula,
    rule: str,
    *attributes: Parameter,
    access: Access = "view",
    operand: Parameter | None = None,
) -> OpDeclaration:
    parameters = (operand or Parameter("input"), *attributes)
    return OpDeclaration(
        name,
        "movement",
        parameters,
        infer,
        free,
        doc,
        primitive=False,
        formula=formula,
        access=access,
        rule=f"any dtype; {rule}",
    )


def attribute(name: str, *default: Value, aliases: tuple[str, ...] = ()) -> Parameter:
    if not default:
        return Parameter(name, "attribute", aliases=aliases)
    return Parameter(name, "attribute", default[0], aliases)


AXIS = ("axis",)
