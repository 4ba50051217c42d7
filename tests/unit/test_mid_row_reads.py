"""How often a nest over rows reads each element of its input from main memory."""

import numpy as np
import pytest
from mid_building import assert_close, kernel, lowered, result_specs, sample, spec
from point_code import check_kernel
from wia_compiler.backends.cpu.target import make_target as cpu
from wia_compiler.backends.gpu.target import make_target as gpu
from wia_compiler.dialects.text import print_ir
from wia_compiler.passes.decompose import Decompose
from wia_compiler.passes.tile_rewrites import share_values
from wia_compiler.passes.verify_tile import verify_tile
from wia_compiler.reference.interpret import run_module
from wia_compiler.reference.tile import count_reads

BODIES = {
    "softmax": lambda ops, x: ops.softmax(x, dim=-1),
    "log_softmax": lambda ops, x: ops.log_softmax(x, dim=-1),
    "layer_norm": lambda ops, x: ops.layer_norm(x),
    "rms_norm": lambda ops, x: ops.rms_norm(x),
    "argmax": lambda ops, x: ops.argmax(x, dim=-1),
}


def nests_of(body, shape, dtype):
    module = kernel([spec(shape, dtype)], body)
    wanted = run_module(module, "k", [sample(spec(shape, dtype))])
    made = module.clone()
    _, context = lowered(kernel([spec((1,))], lambda ops, x: ops.neg(x)))
    Decompose().run(made, context)
    return lowered(made), wanted, result_specs(module)


def reads(nests, wanted, specs, shape, dtype, tolerance):
    """How often each element is read, once what was computed is found right."""
    verify_tile(nests)
    made = [np.zeros(each.shape, each.dtype.numpy) for each in specs]
    (counts,) = count_reads(nests, [sample(spec(shape, dtype))], made)
    for have, want in zip(made, wanted, strict=True):
        assert_close(have, want, tolerance)
    return counts


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("shape", [(5, 127), (3, 1000), (1, 17), (2, 3, 9)])
def test_a_row_that_is_kept_is_read_once(name, shape):
    (nests, _), wanted, specs = nests_of(BODIES[name], shape, "f32")
    before = reads(nests, wanted, specs, shape, "f32", 3e-6)
    assert np.all(before > 1)
    for nest in nests.ops:
        if "wia.nest" in nest.attributes:
            assert share_values(nest, "register", 1 << 13, reads="all")
    assert np.all(reads(nests, wanted, specs, shape, "f32", 3e-6) == 1)


def scheduled(target, name, shape, dtype):
    (nests, context), wanted, specs = nests_of(BODIES[name], shape, dtype)
    context.facts = target.facts
    for step in target.passes():
        if step.level == "mid":
            step.run(nests, context)
    return reads(nests, wanted, specs, shape, dtype, 3e-3), nests


@pytest.mark.parametrize("name", [name for name in BODIES if name != "argmax"])
@pytest.mark.parametrize("shape", [(64, 127), (3, 1000)])
def test_a_gpu_reads_a_row_once(name, shape):
    counts, _ = scheduled(gpu("gpu:sm_90"), name, shape, "f32")
    assert np.all(counts == 1)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("name", [name for name in BODIES if name != "argmax"])
def test_a_cpu_reads_and_converts_a_row_once(name, dtype):
    counts, nests = scheduled(cpu("cpu"), name, (4, 300), dtype)
    assert np.all(counts == 1)
    assert print_ir(nests).count("arith.extf") == 1


def test_a_cpu_leaves_rows_to_its_cache_where_nothing_is_computed_of_them_twice():
    counts, _ = scheduled(cpu("cpu"), "softmax", (4, 300), "f32")
    assert np.all(counts == 2)
    # A difference costs less than a store and a load: every pass subtracts the mean anew.
    counts, _ = scheduled(cpu("cpu"), "layer_norm", (4, 300), "f32")
    assert np.all(counts == 3)


@pytest.mark.parametrize("name", BODIES)
def test_rows_of_half_floats_on_the_cpu(name):
    module = kernel([spec((7, 333), "f16")], BODIES[name])
    _, context = lowered(kernel([spec((1,))], lambda ops, x: ops.neg(x)))
    Decompose().run(module, context)
    check_kernel(module, [sample(spec((7, 333), "f16"))], tolerance=3e-3)
