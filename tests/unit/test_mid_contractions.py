"""matmul and conv2d as nests: every rank, batches, windows, epilogues, movement on operands."""

import numpy as np
import pytest
from mid_building import check, kernel, lowered, sample, spec
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.framework import PassContext

ROUNDING = {"f64": 1e-13, "f32": 1e-5, "f16": 3e-3, "bf16": 2e-2}

RANKS = [
    ((5,), (5,)),
    ((5,), (5, 3)),
    ((4, 5), (5,)),
    ((4, 5), (5, 3)),
    ((2, 4, 5), (5, 3)),
    ((2, 4, 5), (2, 5, 3)),
    ((2, 1, 4, 5), (3, 5, 6)),
    ((7, 2, 4, 5), (5,)),
    ((5,), (2, 5, 3)),
    ((1, 1), (1, 1)),
    ((1, 5), (5, 1)),
]


@pytest.mark.parametrize("shapes", RANKS)
def test_matmul_ranks(shapes):
    a, b = (spec(shape) for shape in shapes)
    check(
        kernel([a, b], lambda ops, a, b: ops.matmul(a, b)),
        [sample(a), sample(b, 1)],
        tolerance=1e-5,
    )


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8"])
def test_matmul_dtypes(dtype):
    a, b = spec((17, 13), dtype), spec((13, 9), dtype)
    module = kernel([a, b], lambda ops, a, b: ops.matmul(a, b))
    check(module, [sample(a), sample(b, 1)], tolerance=ROUNDING.get(dtype, 0))


@pytest.mark.parametrize("m", [0, 1, 17])
@pytest.mark.parametrize("k", [0, 1, 127])
@pytest.mark.parametrize("n", [0, 1, 3])
def test_matmul_sizes(m, k, n):
    a, b, c = spec((m, k)), spec((k, n)), spec((n,))

    def body(ops, a, b, c):
        return ops.max(ops.add(ops.matmul(a, b), c), ops.constant(0.0, "f32"))

    check(
        kernel([a, b, c], body, fused=True), [sample(a), sample(b, 1), sample(c, 2)], tolerance=1e-5
    )


def test_matmul_of_transposed_and_reshaped_operands():
    a, b = spec((13, 17)), spec((9, 26))

    def body(ops, a, b):
        left = ops.permute(a, dims=(1, 0))
        right = ops.permute(ops.reshape(b, shape=(18, 13)), dims=(1, 0))
        return ops.matmul(left, right)

    nests = check(kernel([a, b], body, fused=True), [sample(a), sample(b, 1)], tolerance=1e-5)
    assert len(list(nests.ops)) == 2


def test_batches_of_one_side_join_the_rows():
    a, b = spec((2, 3, 4, 5)), spec((5, 6))
    nests, _ = lowered(kernel([a, b], lambda ops, a, b: ops.matmul(a, b)))
    assert 'in 24 step 1 axis "i.0"' in str(nests)


def test_vector_with_itself_keeps_two_operands():
    each = spec((9,))
    nests = check(kernel([each], lambda ops, a: ops.matmul(a, a)), [sample(each)], tolerance=1e-5)
    (leaf,) = [
        op for op in nests.walk() if isinstance(op, ComputeOp) and op.kind.data == "contract"
    ]
    assert len(leaf.inputs) == 2


def test_constant_operand_becomes_an_array():
    each = spec((3, 4))
    module = kernel([each], lambda ops, a: ops.matmul(a, ops.constant(0.5, "f32", (4, 2))))
    check(module, [sample(each)], tolerance=1e-6)


def test_epilogue_of_higher_rank_and_other_order():
    a, b, c = spec((4, 5)), spec((5, 6)), spec((3, 4, 6))

    def body(ops, a, b, c):
        product = ops.matmul(a, b)
        return [ops.add(product, c), ops.permute(product, dims=(1, 0)), product]

    check(kernel([a, b, c], body, fused=True), [sample(a), sample(b), sample(c)], tolerance=1e-5)


def test_f16_product_is_rounded_before_the_epilogue():
    a, b = spec((8, 64), "f16"), spec((64, 8), "f16")
    module = kernel(
        [a, b],
        lambda ops, a, b: ops.sub(
            ops.matmul(a, b), ops.cast(ops.cast(ops.matmul(a, b), dtype="f32"), dtype="f16")
        ),
    )
    check(module, [sample(a), sample(b, 1)])


def test_two_contractions_are_split():
    each = spec((4, 4))

    def body(ops, a):
        return ops.matmul(ops.matmul(a, a), a)

    module = kernel([each], body, fused=True)
    check(module, [sample(each)], tolerance=1e-5)
    assert not lowered(module)[1].decisions[0].taken


CONVOLUTIONS = {
    "plain": dict(),
    "padded": dict(padding=1),
    "strided": dict(stride=(2, 3), padding=(2, 1)),
    "dilated": dict(dilation=(2, 1), padding=2),
    "grouped": dict(groups=2, padding=1),
    "depthwise": dict(groups=4, padding=1),
}


def convolve(ops, x, w, **attributes):
    from wia_compiler.dialects.wia.ops import make_op

    return ops.append(make_op("conv2d", {"input": x, "weight": w}, attributes))


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("window", [(3, 3), (1, 1), (2, 3)])
def test_conv2d(name, window):
    groups = CONVOLUTIONS[name].get("groups", 1)
    x, w, b = spec((2, 4, 7, 9)), spec((8, 4 // groups, *window)), spec((8, 1, 1))

    def body(ops, x, w, b):
        return ops.max(
            ops.add(convolve(ops, x, w, **CONVOLUTIONS[name]), b), ops.constant(0.0, "f32")
        )

    check(
        kernel([x, w, b], body, fused=True), [sample(x), sample(w, 1), sample(b, 2)], tolerance=1e-5
    )


@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16", "i32", "i8"])
def test_conv2d_dtypes(dtype):
    x, w = spec((1, 3, 5, 5), dtype), spec((2, 3, 3, 3), dtype)
    module = kernel([x, w], lambda ops, x, w: convolve(ops, x, w, padding=1))
    check(module, [sample(x), sample(w, 1)], tolerance=ROUNDING.get(dtype, 0))


@pytest.mark.parametrize("shape", [(0, 3, 5, 5), (2, 3, 0, 5), (1, 3, 1, 1), (2, 0, 5, 5)])
def test_conv2d_sizes(shape):
    x, w = spec(shape), spec((2, shape[1], 3, 3))
    check(
        kernel([x, w], lambda ops, x, w: convolve(ops, x, w, padding=1)),
        [sample(x), sample(w)],
        tolerance=1e-5,
    )


def test_1x1_convolution_is_a_contraction_over_all_places():
    x, w = spec((1, 8, 5, 7)), spec((4, 8, 1, 1))
    nests = check(kernel([x, w], convolve), [sample(x), sample(w)], tolerance=1e-5)
    assert "in 35 step 1" in str(nests) and "tile.compute contract" in str(nests)


def test_padded_convolution_of_moved_inputs():
    x, w = spec((1, 5, 6, 4)), spec((2, 4, 3, 3))

    def body(ops, x, w):
        channels_first = ops.permute(x, dims=(0, 3, 1, 2))
        return convolve(ops, channels_first, w, padding=1)

    check(kernel([x, w], body, fused=True), [sample(x), sample(w)], tolerance=1e-5)
    small = spec((1, 4, 1, 1))

    def stretched(ops, x, w):
        return convolve(ops, ops.broadcast(x, shape=(1, 4, 5, 6)), w, padding=1)

    check(kernel([small, w], stretched, fused=True), [sample(small), sample(w)], tolerance=1e-5)


def test_accumulator_is_the_contract_type():
    a = spec((2, 3), "bf16")
    nests, context = lowered(kernel([a], lambda ops, a: ops.matmul(a, ops.permute(a, dims=(1, 0)))))
    assert isinstance(context, PassContext)
    assert 'memref<1x1xf32, "register">' in str(nests)
    assert np.asarray(1).ndim == 0
