"""Decomposition: each composite equals its reference, in every dtype and at the extremes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from building import Builder, context, kernel, specs
from special_values import assert_same_bits, specials
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.dialects.wia.ops import DECLARATIONS, FusedOp, TensorOp
from wia_compiler.passes.decompose import Decompose
from wia_compiler.passes.decomposing.rows import DECOMPOSITIONS
from wia_compiler.passes.fusion import Fusion
from wia_compiler.passes.infer_shapes import InferShapes
from wia_compiler.passes.verifier import verify_high_level
from wia_compiler.reference.interpret import run_module
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

FLOATS = ("f64", "f32", "f16", "bf16")
Body = Callable[..., SSAValue]


def same_after(body: Body, *arrays: np.ndarray, fuse: bool = False) -> ModuleOp:
    """Decompose a kernel; what it becomes gives the composite's result, bit for bit."""
    names = {f"a{n}": array for n, array in enumerate(arrays)}
    module = kernel(list(names), body)
    InferShapes(specs(**{name: spec_text(array) for name, array in names.items()})).run(
        module, context()
    )
    before = run_module(module, "k", arrays)
    if fuse:
        Fusion().run(module, context())
    Decompose().run(module, context())
    module.verify()
    verify_high_level(module, "k", "decompose")
    assert_same_bits(run_module(module, "k", arrays)[0], before[0])
    return module


def spec_text(array: np.ndarray) -> str:
    name = next(row.name for row in DTYPES.values() if row.numpy == array.dtype)
    return "x".join([*map(str, array.shape), name])


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(DTYPES[dtype].numpy)


def test_every_composite_has_a_row() -> None:
    rows = DECLARATIONS.items()
    composites = {name for name, row in rows if not row.primitive and row.formula is None}
    assert composites == set(DECOMPOSITIONS)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("name", "attributes"),
    [("relu", {}), ("sigmoid", {}), ("silu", {}), ("gelu", {}), ("gelu", {"approximate": "tanh"})],
)
def test_elementwise_composites_on_special_values(name: str, attributes: Any, dtype: str) -> None:
    same_after(lambda b, x: b.op(name, x, **attributes), specials(dtype))


@pytest.mark.parametrize("dtype", ["i64", "i32", "i16", "i8", "u8"])
def test_relu_and_clamp_of_integers(dtype: str) -> None:
    x = specials(dtype)
    same_after(lambda b, x: b.op("relu", x), x)
    same_after(
        lambda b, x: b.op("clamp", named={"input": x, "min": b.literal(2), "max": b.literal(5)}), x
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_clamp_with_one_bound_or_arrays_for_bounds(dtype: str) -> None:
    x = specials(dtype)
    same_after(lambda b, x: b.op("clamp", named={"input": x, "max": b.literal(0.5)}), x)
    low = values(x.shape, dtype)
    same_after(lambda b, x, low: b.op("clamp", named={"input": x, "min": low}), x, low)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dim", [None, 0, (0, 2)])
@pytest.mark.parametrize("name", ["reduce_sum", "reduce_prod", "reduce_mean"])
def test_reductions(name: str, dim: Any, dtype: str) -> None:
    same_after(lambda b, x: b.op(name, x, dim=dim, keepdim=dim == 0), values((3, 5, 7), dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (127, 3), (0, 4), (4, 0), (2, 3, 5)])
def test_softmax_and_norms_of_any_shape(shape: tuple[int, ...], dtype: str) -> None:
    x = values(shape, dtype)
    for dim in (0, -1):
        same_after(lambda b, x, dim=dim: b.op("softmax", x, dim=dim), x)
    weight, bias = values(shape[-1:], dtype, 1), values(shape[-1:], dtype, 2)
    same_after(lambda b, x: b.op("layer_norm", named={"input": x}), x)
    same_after(
        lambda b, x, w, c: b.op("layer_norm", named={"input": x, "weight": w, "bias": c}, eps=1e-3),
        x,
        weight,
        bias,
    )
    same_after(lambda b, x, w: b.op("rms_norm", named={"input": x, "weight": w}), x, weight)
    same_after(lambda b, x: b.op("rms_norm", named={"input": x}, eps=0.25), x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax_and_norms_of_special_rows(dtype: str) -> None:
    x = np.stack([specials(dtype), np.full_like(specials(dtype), -np.inf), specials(dtype)[::-1]])
    same_after(lambda b, x: b.op("softmax", x), x)
    same_after(lambda b, x: b.op("layer_norm", named={"input": x}), x)


def test_what_only_an_empty_softmax_reads_is_not_computed() -> None:
    module = same_after(
        lambda b, x: b.op("softmax", b.op("neg", x)), values((0, 4), "f32"), fuse=True
    )
    assert [op.name for op in module.walk() if isinstance(op, TensorOp)] == []


def test_a_mean_of_nothing_is_nan() -> None:
    module = same_after(lambda b, x: b.op("reduce_mean", x, dim=0), values((0, 3), "f32"))
    assert np.isnan(run_module(module, "k", [values((0, 3), "f32")])[0]).all()


def test_norms_over_several_axes() -> None:
    x, w = values((2, 3, 4), "f16"), values((3, 4), "f16", 1)
    same_after(
        lambda b, x, w: b.op(
            "layer_norm", named={"input": x, "weight": w}, normalized_shape=(3, 4)
        ),
        x,
        w,
    )


@pytest.mark.parametrize("dtype", [*FLOATS, "i32", "i8"])
def test_a_convolution_with_bias(dtype: str) -> None:
    random = np.random.default_rng(5)
    x, w, bias = (
        random.integers(-3, 4, shape).astype(DTYPES[dtype].numpy)
        for shape in ((2, 4, 5, 6), (6, 2, 3, 3), (6,))
    )
    module = same_after(
        lambda b, x, w, c: b.op(
            "conv2d", named={"input": x, "weight": w, "bias": c}, groups=2, padding=1
        ),
        x,
        w,
        bias,
    )
    (fused,) = [op for op in module.walk() if isinstance(op, FusedOp)]
    assert fused.kernel_name.data == "conv2d"


def test_transpose_and_flatten() -> None:
    module = same_after(
        lambda b, x: b.op("flatten", b.op("transpose", x, dim0=0), start_dim=1),
        values((2, 3, 4), "f32"),
    )
    assert [op.name for op in module.walk() if isinstance(op, TensorOp)] == [
        "wia.permute",
        "wia.reshape",
    ]


@pytest.mark.parametrize("dtype", FLOATS)
def test_inside_of_kernels(dtype: str) -> None:
    def body(b: Builder, x: SSAValue) -> SSAValue:
        return b.op("sigmoid", b.op("softmax", b.op("gelu", b.op("transpose", x))))

    module = same_after(body, values((5, 9), dtype), fuse=True)
    assert len([op for op in module.walk() if isinstance(op, FusedOp)]) == 1


def test_half_precision_folds_are_carried_in_f32() -> None:
    module = same_after(lambda b, x: b.op("reduce_sum", x, dim=0), values((9, 3), "bf16"))
    ops = [op for op in module.walk() if isinstance(op, TensorOp)]
    assert [op.declaration.name for op in ops] == ["cast", "reduce_sum", "cast"]
    assert [str(op.result_spec.dtype) for op in ops] == ["f32", "f32", "bf16"]


def test_names_of_new_kernels_do_not_clash() -> None:
    def body(b: Builder, x: SSAValue) -> SSAValue:
        return b.op("matmul", b.op("softmax", b.op("matmul", b.op("softmax", x), x)), x)

    module = same_after(body, values((4, 4), "f32"), fuse=True)
    found = [op.kernel_name.data for op in module.walk() if isinstance(op, FusedOp)]
    assert found == ["softmax", "softmax_2"]
