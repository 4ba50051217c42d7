"""Transcendentals give the same bits in scalars and in vectors of every size."""

import numpy as np
import pytest
from llvm_running import load_module
from special_values import assert_same_bits
from wia_compiler.backends.cpu.host import this_host
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.dialects.text import parse_ir
from wia_compiler.passes.expand_math import ExpandOptions, expand_math

COUNT = 1 << 12
OPS = ("exp", "exp2", "log", "log2", "atan", "tanh", "erf", "sin", "cos", "rsqrt")


def every_magnitude(dtype: str) -> np.ndarray:
    """Arguments of every bit pattern's kind, NaN and infinities among them, and some near 1."""
    row = DTYPES[dtype].numpy
    random = np.random.default_rng(7)
    made = random.integers(0, 256, COUNT * row.itemsize, np.uint8).view(row)
    made[::2] = random.normal(scale=40, size=COUNT // 2)
    made[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]
    return made


def results(dtype: str, lanes: int, options: ExpandOptions, x: np.ndarray) -> list[np.ndarray]:
    """What each op gives in vectors of ``lanes``; 1 stands for scalars."""
    ops = OPS if dtype == "f32" else tuple(op for op in OPS if op not in ("sin", "cos"))
    array, held = f"memref<{COUNT}x{dtype}>", f"vector<{lanes}x{dtype}>" if lanes > 1 else dtype
    kind, types = ("vector", f"{array}, {held}") if lanes > 1 else ("memref", array)
    outputs = ", ".join(f"%{op}: {array}" for op in ops)
    body = "\n".join(
        f"%y{n} = math.{op} %x : {held}\n{kind}.store %y{n}, %{op}[%i] : {types}"
        for n, op in enumerate(ops)
    )
    module = parse_ir(f"""
        func.func @k(%a: {array}, {outputs}) attributes {{wia.host}} {{
          %c0 = arith.constant 0 : index
          %step = arith.constant {lanes} : index
          %n = arith.constant {COUNT} : index
          scf.for %i = %c0 to %n step %step {{
            %x = {kind}.load %a[%i] : {types}
            {body}
          }}
          func.return
        }}""")
    expand_math(module, options)
    module.verify()
    made = [np.zeros_like(x) for _ in ops]
    load_module(module, "k", 1 + len(ops), opt=1)([x], made)
    return made


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("scales_vectors", [False, True])
def test_lanes_do_not_matter(scales_vectors: bool, dtype: str) -> None:
    if scales_vectors and not (this_host().has("avx512f") and this_host().has("avx512vl")):
        pytest.skip("this CPU has no AVX-512")
    options, x = ExpandOptions(scales_vectors=scales_vectors), every_magnitude(dtype)
    scalars = results(dtype, 1, options, x)
    for lanes in (2, 8, 16, 32):
        for found, expected in zip(results(dtype, lanes, options, x), scalars, strict=True):
            assert_same_bits(found, expected)
