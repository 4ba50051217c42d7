"""Elementwise ops as nests compute what the reference says, for every dtype, size and layout."""

import numpy as np
import pytest
from mid_building import check, kernel, sample, spec, tolerance_of
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.dialects.wia.declaration import InferenceError

FLOATS = ("f64", "f32", "f16", "bf16")
INTEGERS = ("i64", "i32", "i16", "i8", "u8")
NUMBERS = (*FLOATS, *INTEGERS)
SIZES = ((), (0,), (1,), (3,), (17, 3), (127,))

BINARY = ("add", "sub", "mul", "min", "max", "floordiv", "mod")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
FLOAT_UNARY = ["exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "floor", "ceil", "round"]


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("op", [*BINARY, *COMPARISONS])
def test_binary(op, dtype):
    each = spec((17, 11), dtype)
    module = kernel([each, each], lambda ops, a, b: getattr(ops, op)(a, b))
    check(module, [sample(each, 1, special=True), sample(each, 2, special=True)])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["div", "pow"])
def test_binary_of_floats(op, dtype):
    each = spec((17, 11), dtype)
    module = kernel([each, each], lambda ops, a, b: getattr(ops, op)(a, b))
    arrays = [sample(each, 1, special=True), sample(each, 2, special=True)]
    check(module, arrays, tolerance=half_tolerance(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", FLOAT_UNARY)
def test_unary_of_floats(op, dtype):
    each = spec((127,), dtype)
    module = kernel([each], lambda ops, a: getattr(ops, op)(a))
    check(module, [sample(each, special=True)], tolerance=half_tolerance(dtype))


def half_tolerance(dtype):
    """A function of f16 or bf16 is rounded to f32 first, and so twice."""
    return tolerance_of(DTYPES[dtype]) if dtype in ("f16", "bf16") else 0.0


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("op", ["neg", "abs"])
def test_unary_of_numbers(op, dtype):
    each = spec((127,), dtype)
    check(kernel([each], lambda ops, a: getattr(ops, op)(a)), [sample(each, special=True)])


@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("source", DTYPES)
def test_cast(source, target):
    each = spec((127,), source)
    check(kernel([each], lambda ops, a: ops.cast(a, dtype=target)), [sample(each, special=True)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_where_and_logic(dtype):
    each = spec((3, 17), dtype)
    flag = spec((17,), "bool")

    def body(ops, a, b, c):
        either = ops.logical_or(c, ops.logical_not(ops.logical_and(c, c)))
        return ops.where(ops.logical_and(either, c), a, b)

    arrays = [sample(each, 1), sample(each, 2), sample(flag, 3)]
    for fused in (False, True):
        check(kernel([each, each, flag], body, fused=fused), arrays)


@pytest.mark.parametrize("shape", SIZES)
def test_sizes_and_scalars(shape):
    each = spec(shape)

    def body(ops, a, b):
        return ops.add(ops.mul(a, b), ops.constant(0.5, "f32"))

    arrays = [sample(each), np.float32(3)[()] * np.ones((), np.float32)]
    for fused in (False, True):
        check(kernel([each, spec(())], body, fused=fused), arrays)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_constants_hold_their_value(dtype):
    each = spec((5,), dtype)
    number = 200 if dtype == "u8" else 1.5 if dtype in FLOATS else -3
    module = kernel([each], lambda ops, a: ops.add(a, ops.constant(number, dtype)))
    check(module, [sample(each)])


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan"), 1e-8, 0.1])
def test_special_constants(number):
    each = spec((3,), "f16")
    check(kernel([each], lambda ops, a: ops.max(a, ops.constant(number, "f16"))), [sample(each)])


def test_rounding_after_every_op_of_a_fused_group():
    each = spec((127,), "f16")

    def body(ops, a, b):
        return ops.sub(ops.add(ops.mul(a, b), b), ops.mul(a, b))

    module = kernel([each, each], body, fused=True)
    check(module, [sample(each, 1), sample(each, 2)])


@pytest.mark.parametrize("fused", [False, True])
def test_broadcasting(fused):
    a, b, c = spec((4, 1, 7)), spec((5, 1)), spec((1,))

    def body(ops, a, b, c):
        return ops.add(ops.mul(a, b), c)

    module = kernel([a, b, c], body, fused=fused)
    check(module, [sample(a), sample(b, 1), sample(c, 2)])


VIEWS = {
    "transposed": lambda array: array.T,
    "negative": lambda array: array[::-1, ::-1],
    "every second": lambda array: np.repeat(np.repeat(array, 2, 0), 3, 1)[::2, ::3],
    "broadcast": lambda array: np.broadcast_to(array[:1], array.shape),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("fused", [False, True])
def test_strided_inputs(view, fused):
    array = VIEWS[view](sample(spec((13, 7))))
    each = spec(array.shape)

    def body(ops, a, b):
        return ops.exp(ops.add(ops.permute(a, dims=(1, 0)), ops.permute(b, dims=(1, 0))))

    check(kernel([each, each], body, fused=fused), [array, sample(each)], tolerance=1e-6)


def test_contiguous_axes_become_one_loop():
    each = spec((4, 5, 3))
    nests = check(kernel([each, each], lambda ops, a, b: ops.add(a, b)), [sample(each)] * 2)
    assert "in 60 step 1" in str(nests)
    bias = spec((3,))
    nests = check(
        kernel([each, bias], lambda ops, a, b: ops.add(a, b)), [sample(each), sample(bias)]
    )
    assert "in 20 step 1" in str(nests) and "in 3 step 1" in str(nests)


def test_outputs_returned_twice_and_inputs_returned():
    each = spec((3, 4))

    def body(ops, a):
        b = ops.neg(a)
        return [b, b, a, ops.constant(2.0, "f32"), ops.permute(b, dims=(1, 0))]

    for fused in (False, True):
        check(kernel([each], body, fused=fused), [sample(each)])


def test_results_of_several_shapes():
    a, b = spec((6, 4)), spec((4,))

    def body(ops, a, b):
        c = ops.exp(b)
        d = ops.mul(a, c)
        return [c, d, ops.reshape(d, shape=(4, 6)), ops.permute(d, dims=(1, 0))]

    check(kernel([a, b], body, fused=True), [sample(a), sample(b)])


def test_unknown_ops_are_refused_upstream():
    with pytest.raises(InferenceError):
        kernel([spec((3,), "i32")], lambda ops, a: ops.exp(a))
    assert tolerance_of(DTYPES["f32"]) > 0
