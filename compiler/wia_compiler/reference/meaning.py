"""The meaning of every op of the language: the definition that targets are tested against."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wia_compiler.dialects.types import TensorSpec, Value
from wia_compiler.dialects.wia.declaration import (
    Attributes,
    OpDeclaration,
    Required,
    operand_names,
)
from wia_compiler.dialects.wia.declarations import DECLARATIONS
from wia_compiler.dialects.wia.formula import Algebra, Call
from wia_compiler.reference.contractions import CONTRACTION_MEANING
from wia_compiler.reference.elementwise import ELEMENTWISE_MEANING, Meaning
from wia_compiler.reference.movement import MOVEMENT_MEANING
from wia_compiler.reference.placement import PLACEMENT_MEANING
from wia_compiler.reference.reductions import REDUCTION_MEANING, spec_of_array
from wia_compiler.reference.rounding import Array
from wia_compiler.reference.scans import SCAN_MEANING

MEANING: dict[str, Meaning] = {
    **ELEMENTWISE_MEANING,
    **REDUCTION_MEANING,
    **CONTRACTION_MEANING,
    **MOVEMENT_MEANING,
    **PLACEMENT_MEANING,
    **SCAN_MEANING,
}


def evaluate(name: str, operands: Mapping[str, Array], attributes: Attributes) -> Array:
    """The result of one op: ``operands`` by parameter name (absent optional ones left out).

    Operands have numpy dtypes of the language's and shapes that the op's rule accepts; every
    attribute of the declaration is present. An op without a row here means what its formula says.
    The result is in C order.
    """
    meaning = MEANING.get(name)
    with np.errstate(all="ignore"):
        if meaning is None:
            return np.asarray(_by_formula(DECLARATIONS[name], operands, attributes), order="C")
        return np.asarray(meaning(dict(operands), attributes), order="C")


def _by_formula(
    declaration: OpDeclaration, operands: Mapping[str, Array], attributes: Attributes
) -> Array:
    if declaration.formula is None:
        raise KeyError(f"no meaning and no formula for {declaration.name}")
    specs = [spec_of_array(array) for array in operands.values()]
    result = declaration.infer(declaration.operands(list(operands), specs), attributes)
    return declaration.formula(Call(operands, attributes, result), ArrayAlgebra())


class ArrayAlgebra(Algebra[Array]):
    """Formulas on numpy arrays: each op they name is evaluated, with its own rounding."""

    def named(
        self, name: str, operands: Mapping[str, Array], attributes: Mapping[str, Value]
    ) -> Array:
        """The result of an op."""
        given = {
            parameter.name: parameter.default
            for parameter in DECLARATIONS[name].attribute_parameters
            if not isinstance(parameter.default, Required)
        }
        return evaluate(name, operands, {**given, **attributes})

    def op(self, name: str, *operands: Array, **attributes: Value) -> Array:
        """The result of an op whose operands are given in order."""
        names = operand_names(DECLARATIONS[name], len(operands))
        return self.named(name, dict(zip(names, operands, strict=True)), attributes)

    def splat(self, number: bool | int | float, spec: TensorSpec) -> Array:
        """An array of one number."""
        return np.full(spec.shape, np.asarray(number).astype(spec.dtype.numpy))

    def spec(self, value: Array) -> TensorSpec:
        """Shape and dtype of an array."""
        return spec_of_array(value)
