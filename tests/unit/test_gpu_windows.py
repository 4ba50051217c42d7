"""Pooling on a GPU: one launch, windows at edges without branches, neighbours read neighbours."""

import numpy as np
import pytest
import wia_compiler as wia


def pool(expression, x, target="gpu:sm_80"):
    """What a GPU's simulator gives, checked against the CPU; the build."""
    kernel = wia.compile(f"kernel k(input X: tensor, output C: tensor) {{ C = {expression}; }}").k
    build = kernel.build(x, target=target)
    room = 0 if x.dtype.kind == "i" or "max" in expression else 1e-6
    np.testing.assert_allclose(build(x), kernel(x), rtol=room, atol=room)
    return build


def sample(shape, dtype=np.float32):
    values = np.random.default_rng(sum(shape)).standard_normal(shape)
    return (values * 9).astype(dtype)


@pytest.mark.parametrize(
    "expression",
    [
        "max_pool(X, 3, stride=2, padding=1)",
        "max_pool(X, 2)",
        "max_pool(X, 3, stride=1, padding=1, dilation=1)",
        "max_pool(X, 3, stride=1, dilation=2, padding=1)",
        "max_pool(X, [1, 5], stride=1, padding=[0, 2])",
        "max_pool(X, 3, stride=2, ceil_mode=true)",
        "avg_pool(X, 3, stride=2, padding=1)",
        "avg_pool(X, 3, stride=2, padding=1, count_include_pad=false)",
    ],
)
@pytest.mark.parametrize("shape", [(2, 3, 16, 16), (1, 2, 17, 13), (1, 1, 7, 127), (0, 2, 8, 8)])
def test_pools(expression, shape):
    pool(expression, sample(shape))


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32])
def test_other_types(dtype):
    pool("max_pool(X, 3, stride=2, padding=1)", sample((1, 2, 19, 30), dtype))


def test_special_values():
    x = sample((1, 2, 16, 16))
    x[0, 0, 0, 0], x[0, 1, 15, 15], x[0, 1, 4, 4] = np.nan, -np.inf, np.inf
    pool("max_pool(X, 3, stride=2, padding=1)", x)
    pool("max_pool(X, 3, stride=2, padding=1)", np.full((1, 1, 9, 9), -np.inf, np.float32))


def test_a_view():
    pool("max_pool(X, 3, stride=2, padding=1)", sample((1, 2, 20, 40))[:, :, :, ::2])


def test_one_launch_that_reads_shared_rows_once():
    x = sample((1, 16, 56, 56))
    build = pool("max_pool(X, 3, stride=2, padding=1)", x)
    assert build.resources["kernels"] == 1
    (decision,) = build.stage("schedule").decisions
    assert decision.numbers["results a thread"] == 4
    counters = build.profile(x).counters
    results = 16 * 28 * 28
    # 9 rows of 3 elements serve 4 results, where each alone would read 3.
    assert counters["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] * 32 < 8 * results
    assert counters["ptx_inst_executed"] * 32 < 50 * results
    assert counters["ptx_branches_divergent"] == 0


@pytest.mark.parametrize(
    "expression,shape,by_windows",
    [
        ("max_pool(X, 3)", (2, 8, 30, 30), True),
        ("max_pool(X, 3, stride=1)", (2, 8, 30, 30), True),
        ("max_pool(X, 3, stride=2, padding=1)", (2, 8, 30, 30), True),
        ("max_pool(X, 2)", (1, 8, 30, 30), True),
        ("max_pool(X, 3, stride=4)", (2, 8, 30, 30), True),
        ("reduce_sum(X, axis=2)", (2, 64, 9), False),
        ("reduce_sum(X, axis=[2, 3])", (2, 64, 3, 3), False),
        ("reduce_sum(X, axis=0)", (9, 640), False),
    ],
)
def test_windows_are_known_by_how_they_lie_in_memory(expression, shape, by_windows):
    """Of one image and of several, whose arrays are looked at as something else."""
    (decision,) = pool(expression, sample(shape)).stage("schedule").decisions
    assert decision.reason.startswith("windows") == by_windows
