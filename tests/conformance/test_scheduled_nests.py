"""What each target's default schedule makes of a nest still computes what the reference says."""

import numpy as np
import pytest
from mid_building import assert_close, kernel, lowered, result_specs, run, sample, spec
from wia_compiler.backends.cpu.target import make_target as cpu
from wia_compiler.backends.gpu.target import make_target as gpu
from wia_compiler.backends.tpu.target import make_target as tpu
from wia_compiler.dialects.wia.ops import make_op
from wia_compiler.passes.verify_tile import verify_tile
from wia_compiler.reference.interpret import run_module

TARGETS = {"cpu": cpu, "gpu:sm_90": gpu, "tpu:spec": tpu}


def softmax(ops, x):
    e = ops.exp(ops.sub(x, ops.reduce_max(x, dim=-1, keepdim=True)))
    return ops.div(e, ops.reduce_sum(e, dim=-1, keepdim=True))


def bias_relu(ops, a, b, c):
    return ops.max(ops.add(ops.matmul(a, b), c), ops.constant(0.0, "f32"))


def convolution(ops, x, w):
    return ops.append(make_op("conv2d", {"input": x, "weight": w}, {"padding": 1, "stride": 2}))


# Shapes that no tile divides, rows shorter and longer than a warp and a block take.
CASES = {
    "elementwise": ([(127, 33), (33,)], lambda ops, a, b: ops.mul(ops.add(a, b), a)),
    "short rows": ([(37, 3)], softmax),
    "rows": ([(37, 300)], softmax),
    "long rows": ([(3, 3000)], softmax),
    "sum of rows": ([(300, 127)], lambda ops, a: ops.reduce_sum(a, dim=0)),
    "sum of all": ([(30, 100)], lambda ops, a: ops.reduce_sum(a, dim=None)),
    "matmul": ([(67, 45), (45, 70), (70,)], bias_relu),
    "small matmul": ([(3, 2), (2, 5), (5,)], bias_relu),
    "batches": ([(3, 33, 45), (3, 45, 17)], lambda ops, a, b: ops.matmul(a, b)),
    "matrix times vector": ([(33, 45), (45,)], lambda ops, a, b: ops.matmul(a, b)),
    "dot product": ([(450,), (450,)], lambda ops, a, b: ops.matmul(a, b)),
    "convolution": ([(2, 3, 19, 21), (5, 3, 3, 3)], convolution),
}
TPU_CASES = ("matmul", "small matmul", "batches", "matrix times vector")
PAIRS = [(t, c) for t in TARGETS for c in CASES if t != "tpu:spec" or c in TPU_CASES]


@pytest.mark.parametrize(("target", "case"), PAIRS)
def test_schedule(target, case):
    shapes, body = CASES[case]
    module = kernel([spec(shape) for shape in shapes], body, fused=True)
    arrays = [sample(spec(shape), seed) for seed, shape in enumerate(shapes)]
    wanted = run_module(module, "k", arrays)
    nests, context = lowered(module)
    made = TARGETS[target](target)
    context.facts = made.facts
    for step in made.passes():
        if step.level != "mid":
            break
        step.run(nests, context)
        nests.verify()
        verify_tile(nests)
    got = run(nests, arrays, result_specs(module))
    for have, want in zip(got, wanted, strict=True):
        assert have.dtype == np.float32
        assert_close(have, want, 1e-5)
