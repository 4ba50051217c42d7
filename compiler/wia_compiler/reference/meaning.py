"""The meaning of every op of the language: the definition that targets are tested against."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wia_compiler.dialects.wia.declaration import Attributes
from wia_compiler.reference.contractions import CONTRACTION_MEANING
from wia_compiler.reference.elementwise import ELEMENTWISE_MEANING, Meaning
from wia_compiler.reference.movement import MOVEMENT_MEANING
from wia_compiler.reference.placement import PLACEMENT_MEANING
from wia_compiler.reference.reductions import REDUCTION_MEANING
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
    attribute of the declaration is present. The result is in C order.
    """
    with np.errstate(all="ignore"):
        return np.asarray(MEANING[name](dict(operands), attributes), order="C")
