"""What the contract says of matrix units of a GPU, on the PTX simulator."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import wia_compiler as wia

PRODUCT = "kernel mm(input A: tensor, input B: tensor, output C: tensor) { C = cast(A @ B, f32); }"
RNG = np.random.default_rng(3)


def test_target_tf32() -> None:
    kernel = wia.compile(PRODUCT).mm
    a, b = (RNG.standard_normal(shape).astype(np.float32) for shape in ((48, 96), (96, 40)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)

    found = np.asarray(kernel.build(a, b, target="gpu:sm_80")(a, b))
    assert (np.abs(found - exact) <= 2.0**-20 * size).all()

    build = kernel.build(a, b, target="gpu:sm_80", schedule="use_tensor_cores tf32")
    assert build.stage("schedule").decisions[0].numbers["rounds to"] == "tf32"
    rounded = np.asarray(build(a, b))
    assert (np.abs(rounded - exact) <= 2.0**-10 * size).all()
    assert (np.abs(rounded - exact) > 2.0**-20 * size).any()

    for dtype in (np.float16, ml_dtypes.bfloat16):
        narrow = [each.astype(dtype) for each in (a, b)]
        wide = [each.astype(np.float64) for each in narrow]
        text = PRODUCT.replace("A @ B, f32", "A, f32) @ cast(B, f32")
        build = wia.compile(text).mm.build(*narrow, target="gpu:sm_80")
        assert "mma.sync" in build.assembly("ptx")
        assert (np.abs(np.asarray(build(*narrow)) - wide[0] @ wide[1]) <= 2.0**-20 * size).all()
