"""Canonical forms of slices, pads and joins keep every element where it was."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from building import context, kernel, specs
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.canonicalize import Canonicalize
from wia_compiler.passes.dce import Dce
from wia_compiler.passes.infer_shapes import InferShapes
from wia_compiler.passes.kernel_function import kernel_function
from wia_compiler.reference.interpret import run_module

X = np.arange(35, dtype=np.float32).reshape(5, 7)
BOUNDS = (None, 0, 1, 3, -2, 9, -9)


def ops_left(body: Any) -> list[str]:
    """The ops that canonicalisation leaves of a kernel over X, whose result stays as it was."""
    module = kernel(["x"], body)
    InferShapes(specs(x="5x7xf32")).run(module, context())
    (before,) = run_module(module, "k", [X])
    Canonicalize().run(module, context())
    Dce().run(module, context())
    module.verify()
    (after,) = run_module(module, "k", [X])
    np.testing.assert_array_equal(before, after)
    function = kernel_function(module, "k")
    return [op.declaration.name for op in function.walk() if isinstance(op, TensorOp)]


@pytest.mark.parametrize("step", [-3, -1, 1, 2])
def test_two_slices_are_one(step: int) -> None:
    for first, last, again in itertools.product(BOUNDS, BOUNDS, (-2, -1, 1, 3)):

        def body(b: Any, x: Any, first=first, last=last, again=again) -> Any:
            one = b.op("slice", x, starts=(1, first), stops=(None, last), steps=(1, step))
            return b.op("slice", one, starts=(None, 0 if again > 0 else None), steps=(1, again))

        assert len(ops_left(body)) <= 2
        if X[1:, first:last:step].size:
            assert len(ops_left(body)) <= 1


def test_what_changes_nothing_goes() -> None:
    assert ops_left(lambda b, x: b.op("slice", x, starts=(0, None), stops=(5, 7))) == []
    assert ops_left(lambda b, x: b.op("pad", x, pad=(0, 0, 0, 0))) == []
    assert ops_left(lambda b, x: b.op("concat", x, dim=1)) == []


def test_what_changes_something_stays() -> None:
    assert ops_left(lambda b, x: b.op("slice", x, steps=(1, -1))) == ["slice"]
    assert ops_left(lambda b, x: b.op("pad", x, pad=(1, -1))) == ["pad"]
    assert ops_left(lambda b, x: b.op("pad", x, pad=(0, 0), interior=1)) == ["pad"]
    assert ops_left(lambda b, x: b.op("concat", x, x, dim=0)) == ["concat"]
