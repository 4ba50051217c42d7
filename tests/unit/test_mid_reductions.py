"""Groups with reductions as row nests: any axes, several levels, results of several shapes."""

import numpy as np
import pytest
from mid_building import check, kernel, lowered, sample, spec
from wia_compiler.dialects.tile import ComputeOp

NUMBERS = ("f64", "f32", "i64", "i32", "i16", "i8", "u8")
REDUCTIONS = ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min")
ROUNDING = {"f64": 1e-13, "f32": 3e-6, "f16": 3e-3, "bf16": 2e-2}


def leaves(nests, kind):
    return [op for op in nests.walk() if isinstance(op, ComputeOp) and op.kind.data == kind]


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("fused", [False, True])
def test_reduction(op, dtype, fused):
    each = spec((3, 17), dtype)
    module = kernel([each], lambda ops, a: getattr(ops, op)(a, dim=1, keepdim=False), fused=fused)
    check(
        module,
        [sample(each, special=dtype not in ("f32", "f64"))],
        tolerance=ROUNDING.get(dtype, 0),
    )


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("op", ["reduce_max", "reduce_min", "reduce_sum"])
def test_nan_and_infinity(op, dtype):
    each = spec((5, 4), dtype)
    array = sample(each)
    array[0, 1], array[1, 2], array[2, 3] = np.nan, np.inf, -np.inf
    check(kernel([each], lambda ops, a: getattr(ops, op)(a, dim=1)), [array], tolerance=1e-6)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_halves_are_carried_in_f32(dtype):
    each = spec((4, 1000), dtype)
    check(
        kernel([each], lambda ops, a: ops.reduce_sum(a, dim=1)),
        [sample(each)],
        tolerance=ROUNDING[dtype],
    )


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("axes", [0, 1, 2, (0, 1), (0, 2), (1, 2), (0, 1, 2), None, -1])
@pytest.mark.parametrize("shape", [(4, 3, 5), (1, 3, 1), (17, 1, 2)])
def test_axes(axes, keepdim, shape):
    each = spec(shape, "i32")
    module = kernel([each], lambda ops, a: ops.reduce_sum(a, dim=axes, keepdim=keepdim))
    check(module, [sample(each)])


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("op", ["reduce_sum", "reduce_prod"])
def test_reductions_of_nothing(op, shape):
    each = spec(shape)
    for axis in (0, 1, None):
        check(
            kernel([each], lambda ops, a, axis=axis: getattr(ops, op)(a, dim=axis)), [sample(each)]
        )


def test_scalar_reduction():
    each = spec(())
    check(kernel([each], lambda ops, a: ops.reduce_sum(a, dim=None)), [sample(each)])


def softmax(ops, x, axis=-1):
    e = ops.exp(ops.sub(x, ops.reduce_max(x, dim=axis, keepdim=True)))
    return ops.div(e, ops.reduce_sum(e, dim=axis, keepdim=True))


@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (127, 1), (2, 3, 127)])
@pytest.mark.parametrize("axis", [0, -1])
def test_softmax(shape, axis):
    each = spec(shape)
    module = kernel([each], lambda ops, a: softmax(ops, a, axis), fused=True)
    nests = check(module, [sample(each)], tolerance=3e-6)
    assert len([op for op in nests.ops]) == 2
    assert len(leaves(nests, "reduce")) == 2


def test_softmax_rows_are_one_loop():
    each = spec((2, 3, 127))
    nests, _ = lowered(kernel([each], softmax, fused=True))
    assert "in 6 step 1" in str(nests)


def layer_norm(ops, x, weight, bias):
    n = ops.constant(1 / 24, "f32")
    mean = ops.mul(ops.reduce_sum(x, dim=(-2, -1), keepdim=True), n)
    centred = ops.sub(x, mean)
    variance = ops.mul(ops.reduce_sum(ops.mul(centred, centred), dim=(1, 2), keepdim=True), n)
    scale = ops.rsqrt(ops.add(variance, ops.constant(1e-5, "f32")))
    return ops.add(ops.mul(ops.mul(centred, scale), weight), bias)


def test_layer_norm():
    x, w = spec((5, 4, 6)), spec((4, 6))
    module = kernel([x, w, w], layer_norm, fused=True)
    nests = check(module, [sample(x), sample(w, 1), sample(w, 2)], tolerance=3e-6)
    assert [leaf.sizes for leaf in leaves(nests, "reduce")] == [(1, 24), (1, 24)]


def test_values_of_a_row_are_computed_once():
    x = spec((5, 24))

    def body(ops, x):
        mean = ops.mul(ops.reduce_sum(x, dim=1), ops.constant(1 / 24, "f32"), hint="mean")
        wide = ops.broadcast(ops.reshape(mean, shape=(5, 1)), shape=(5, 24))
        return [ops.sub(x, wide), mean]

    nests = check(kernel([x], body, fused=True), [sample(x)], tolerance=1e-6)
    fill, row, whole, copy = leaves(nests, "map")
    assert not fill.inputs and row.sizes == copy.sizes == (1,) and whole.sizes == (1, 24)
    assert row.outputs[0] in whole.inputs and row.outputs[0] in copy.inputs
    assert str(nests).count("arith.mulf") == 1


def test_independent_reductions_share_a_pass():
    each = spec((7, 33))

    def body(ops, x):
        square = ops.reduce_sum(ops.mul(x, x), dim=1)
        return [ops.reduce_sum(x, dim=1), square, ops.reduce_max(x, dim=1)]

    nests = check(kernel([each], body, fused=True), [sample(each)], tolerance=1e-6)
    (leaf,) = leaves(nests, "reduce")
    assert len(leaf.outputs) == 3


def test_row_results_beside_whole_ones():
    each = spec((7, 33))

    def body(ops, x):
        y = ops.exp(x)
        total = ops.reduce_sum(y, dim=1)
        share = ops.div(y, ops.reshape(total, shape=(7, 1)))
        return [y, total, share, ops.permute(share, dims=(1, 0)), ops.reshape(share, shape=(3, 77))]

    nests = check(kernel([each], body, fused=True), [sample(each)], tolerance=1e-6)
    assert len([op for op in nests.ops]) == 2


def test_result_that_does_not_depend_on_the_reduction():
    x, b = spec((7, 33)), spec((33,))

    def body(ops, x, b):
        c = ops.exp(b)
        return [c, ops.reduce_sum(ops.mul(x, c), dim=1)]

    nests = check(kernel([x, b], body, fused=True), [sample(x), sample(b)], tolerance=1e-6)
    assert len([op for op in nests.ops]) == 3


def test_reduction_over_rows_reads_a_transposed_input():
    x = spec((33, 7))
    array = sample(spec((7, 33))).T
    module = kernel([x], lambda ops, a: ops.reduce_sum(a, dim=0))
    check(module, [array], tolerance=1e-6)


def test_broadcast_up_after_a_reduction():
    x, b = spec((5, 8)), spec((3, 5, 8))

    def body(ops, x, b):
        return ops.add(ops.reduce_max(x, dim=1, keepdim=True), b)

    check(kernel([x, b], body, fused=True), [sample(x), sample(b)])


@pytest.mark.parametrize("name", ["outer sum", "two domains", "two axes", "chained"])
def test_groups_that_one_nest_cannot_hold_are_split(name):
    each = spec((9, 9))

    def body(ops, x):
        row = ops.reduce_sum(x, dim=1)
        if name == "outer sum":
            return ops.add(ops.reshape(row, shape=(9, 1)), row)
        if name == "two axes":
            return ops.add(row, ops.reduce_sum(x, dim=0))
        if name == "chained":
            return ops.reduce_max(row, dim=0)
        wide = ops.broadcast(x, shape=(4, 9, 9))
        return ops.add(ops.reduce_sum(wide, dim=2), row)

    module = kernel([each], body, fused=True)
    check(module, [sample(each)], tolerance=1e-6)
    _, context = lowered(module)
    (decision,) = context.decisions
    assert not decision.taken and decision.candidate == "group" and decision.reason


def test_locations_name_every_op_they_came_from():
    from wia_compiler.dialects.location import origins_of

    nests, _ = lowered(kernel([spec((3, 17))], softmax, fused=True))
    for op in nests.walk():
        if op.name not in ("builtin.module", "func.func", "func.return"):
            assert origins_of(op), op.name
    tokens = {o.token for op in nests.walk() if isinstance(op, ComputeOp) for o in origins_of(op)}
    assert tokens == {0, 1, 2, 3, 4}
