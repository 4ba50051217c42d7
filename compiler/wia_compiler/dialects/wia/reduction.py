"""Ops that fold one or more axes, and ops built on them that keep the shape.

FLOP convention: one per folded element; softmax and the norms count each of their passes.
"""

from __future__ import annotations

from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.declaration import (
    Attributes,
    InferenceError,
    OpDeclaration,
    Operands,
    Parameter,
)
from wia_compiler.dialects.wia.formula import carried
from wia_compiler.dialects.wia.rules import (
    describe,
    is_narrow,
    normalize_axes,
    normalize_axis,
    require_float,
    require_number,
    same_dtype,
)

AXES = Parameter("dim", "attribute", None, aliases=("axis",))
"""The axes that a reduction folds: one, several, or all where it is left out."""
KEEP = Parameter("keepdim", "attribute", False, aliases=("keepdims",))
"""Whether folded axes stay, with size 1."""


def _reduce(
    name: str, doc: str, *, floats: bool = False, primitive: bool = True, sums: bool = False
) -> OpDeclaration:
    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        operand = operands["input"]
        require_float(operand, name) if floats else require_number(operand, name)
        axes = normalize_axes(attributes["dim"], operand)
        if name in ("reduce_max", "reduce_min") and any(operand.shape[axis] == 0 for axis in axes):
            raise InferenceError(
                f"{name} of no elements is undefined: {describe(operand)}",
                "the axes it folds must have elements",
            )
        return TensorSpec(reduced_shape(operand, axes, bool(attributes["keepdim"])), operand.dtype)

    def flops(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
        return operands["input"].num_elements

    parameters = (Parameter("input"), AXES, KEEP)
    return OpDeclaration(
        name,
        "reduction",
        parameters,
        infer,
        flops,
        doc,
        primitive=primitive,
        composite_when=is_narrow if sums else None,
        formula=carried(name) if sums else None,
        access="rows",
        rule=f"{'floats' if floats else 'numbers'}; the shape without dim, or with size 1 there "
        "(keepdim); dtype of input",
        numerics=_FOLDED if sums else "",
    )


def reduced_shape(spec: TensorSpec, axes: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """The shape left when ``axes`` (normalised) are folded."""
    if keepdim:
        return tuple(1 if axis in axes else size for axis, size in enumerate(spec.shape))
    return tuple(size for axis, size in enumerate(spec.shape) if axis not in axes)


def _infer_softmax(operands: Operands, attributes: Attributes) -> TensorSpec:
    operand = operands["input"]
    require_float(operand, "softmax")
    normalize_axis(attributes["dim"], operand)
    return TensorSpec(operand.shape, operand.dtype)


def normalized_axes(operand: TensorSpec, attributes: Attributes, op: str) -> tuple[int, ...]:
    """The trailing axes that a norm covers; ``normalized_shape`` left out means the last."""
    shape = attributes["normalized_shape"]
    if operand.rank == 0:
        raise InferenceError(f"{op} needs an axis, found {describe(operand)}", "reshape it to [1]")
    if shape is None:
        return (operand.rank - 1,)
    sizes = shape if isinstance(shape, tuple) else (shape,)
    if not sizes or operand.shape[-len(sizes) :] != sizes:
        raise InferenceError(
            f"normalized_shape {list(sizes)} is not the end of the shape of {describe(operand)}",
            "list the last sizes of the input",
        )
    return tuple(range(operand.rank - len(sizes), operand.rank))


def _infer_norm(op: str):
    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        operand = operands["input"]
        require_float(operand, op)
        axes = normalized_axes(operand, attributes, op)
        wanted = tuple(operand.shape[axis] for axis in axes)
        for spec in operands.all[1:]:
            if spec.shape != wanted:
                raise InferenceError(
                    f"{op} needs shape {list(wanted)} here, found {describe(spec)}",
                    "weight and bias have the shape of the normalised axes",
                )
        return TensorSpec(operand.shape, same_dtype(operands.all))

    return infer


def _passes(count: int):
    def flops(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
        return count * result.num_elements

    return flops


_NORMALIZED = Parameter("normalized_shape", "attribute", None)
_FOLDED = (
    "f16 and bf16 are carried in f32 and rounded once, integers wrap; the order of accumulation "
    "is not defined."
)
_ROWS = [[1.0, 2.0], [3.0, 5.0]]

REDUCTION: tuple[OpDeclaration, ...] = (
    _reduce("reduce_sum", "Sum over axes; of no elements it is 0.", sums=True).with_example(
        "reduce_sum(x, dim=1)", x=_ROWS
    ),
    _reduce("reduce_prod", "Product over axes; of no elements it is 1.", sums=True).with_example(
        "reduce_prod(x, dim=0)", x=_ROWS
    ),
    _reduce("reduce_max", "Largest over axes; NaN if any is NaN.").with_example(
        "reduce_max(x, dim=1, keepdim=true)", x=_ROWS
    ),
    _reduce("reduce_min", "Smallest over axes; NaN if any is NaN.").with_example(
        "reduce_min(x)", x=_ROWS
    ),
    _reduce(
        "reduce_mean",
        "Arithmetic mean over axes, carried in f32 (f64 for f64); of no elements it is NaN.",
        floats=True,
        primitive=False,
    ).with_example("reduce_mean(x, dim=1)", x=_ROWS),
    OpDeclaration(
        "softmax",
        "reduction",
        (Parameter("input"), Parameter("dim", "attribute", -1, aliases=("axis",))),
        _infer_softmax,
        _passes(5),
        "exp(x - max) / sum(exp(x - max)) along an axis, carried in f32 (f64 for f64).",
        primitive=False,
        access="rows",
        rule="floats; shape and dtype of input",
        numerics="A row of -inf gives NaN, as in PyTorch.",
    ).with_example("softmax(x)", x=_ROWS),
    OpDeclaration(
        "layer_norm",
        "reduction",
        (
            Parameter("input"),
            _NORMALIZED,
            Parameter("weight", "optional_tensor", None),
            Parameter("bias", "optional_tensor", None),
            Parameter("eps", "attribute", 1e-5),
        ),
        _infer_norm("layer_norm"),
        _passes(8),
        "(x - mean) / sqrt(variance + eps) * weight + bias over the trailing axes, carried in f32 "
        "(f64 for f64); the variance is the biased one.",
        primitive=False,
        access="rows",
        rule="floats of one dtype; weight and bias have the shape of the normalised axes; shape "
        "of input",
    ).with_example("layer_norm(x)", x=_ROWS),
    OpDeclaration(
        "rms_norm",
        "reduction",
        (
            Parameter("input"),
            _NORMALIZED,
            Parameter("weight", "optional_tensor", None),
            Parameter("eps", "attribute", None),
        ),
        _infer_norm("rms_norm"),
        _passes(4),
        "x / sqrt(mean(x^2) + eps) * weight over the trailing axes, carried in f32 (f64 for f64); "
        "eps left out is the machine epsilon of the dtype.",
        primitive=False,
        access="rows",
        rule="floats of one dtype; weight has the shape of the normalised axes; shape of input",
    ).with_example("rms_norm(x)", x=[[3.0, 4.0]]),
)
