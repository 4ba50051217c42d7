"""The reference beside PyTorch's recorded results, and every decomposition beside the reference.

``tools/record_torch.py`` wrote what PyTorch gave; docs/numerics.md lists where the two differ.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from building import Builder, context, kernel, specs
from peer_cases import CASES, Case
from wia_compiler.base.dtypes import DTYPES, from_numpy
from wia_compiler.dialects.wia.declarations import DECLARATIONS
from wia_compiler.passes.decompose import Decompose
from wia_compiler.passes.expand import Expand
from wia_compiler.passes.infer_shapes import InferShapes
from wia_compiler.passes.verifier import verify_high_level
from wia_compiler.reference.interpret import run_module
from wia_compiler.reference.meaning import evaluate
from xdsl.ir import SSAValue

RESULTS = np.load(Path(__file__).parents[1] / "data" / "torch_results.npz")
NAMES = [f"{number}-{case.op}" for number, case in enumerate(CASES)]


def attributes_of(case: Case) -> dict[str, Any]:
    """Every attribute of the op, by name; what the case leaves out is the default."""
    defaults = {p.name: p.default for p in DECLARATIONS[case.op].attribute_parameters}
    return {**defaults, **case.attributes}


def assert_near(found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """Equal shapes and special values; floats within a tolerance of 1 and of their size."""
    assert found.shape == expected.shape
    wide = [each.astype(np.float64) for each in (found, expected)]
    np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize(("number", "case"), list(enumerate(CASES)), ids=NAMES)
def test_reference_agrees_with_torch(number: int, case: Case) -> None:
    found, expected = evaluate(case.op, case.arrays(), attributes_of(case)), RESULTS[str(number)]
    kind = {"f": "f", "i": "i", "u": "i", "b": "b"}
    assert kind[found.dtype.kind] == kind[expected.dtype.kind]
    assert_near(found, expected, case.tolerance)


def test_every_case_is_recorded() -> None:
    assert set(RESULTS.files) == {"version", *(str(number) for number in range(len(CASES)))}


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_steps_give_what_the_op_means(case: Case, dtype: str) -> None:
    """Written out and decomposed, the op has its own result; functions may differ in rounding."""
    arrays = [
        each.astype(DTYPES[dtype].numpy) if each.dtype == np.float32 else each
        for each in case.arrays().values()
    ]
    names = list(case.inputs)

    def body(build: Builder, *values: SSAValue) -> SSAValue:
        operands = dict(zip(names, values, strict=True))
        return build.op(case.op, named=operands, **case.attributes)

    module = kernel(names, body)
    texts = {name: spec_text(array) for name, array in zip(names, arrays, strict=True)}
    InferShapes(specs(**texts)).run(module, context())
    (before,) = run_module(module, "k", arrays)
    Expand().run(module, context())
    Decompose().run(module, context())
    module.verify()
    verify_high_level(module, "k", "decompose")
    (after,) = run_module(module, "k", arrays)
    assert before.dtype == after.dtype
    steps = 8 if case.op in ("expm1", "log1p", "sinh", "cosh", "tan", "log10") else 4
    unit = np.finfo(np.float32).eps if dtype == "f32" else np.finfo(np.float16).eps
    assert_near(after, before, steps * float(unit))


def spec_text(array: np.ndarray) -> str:
    """``3x4xf32``."""
    dtype = from_numpy(array.dtype)
    assert dtype is not None
    return "x".join([*map(str, array.shape), dtype.name])
