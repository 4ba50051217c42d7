"""What the rules of ops refuse: messages name operand and sizes, hints say what to do."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import wia_compiler.dialects.wia
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.declaration import InferenceError, operand_names
from wia_compiler.dialects.wia.declarations import DECLARATIONS

FOLDER = Path(wia_compiler.dialects.wia.__path__[0])


def spec(text: str, label: str) -> TensorSpec:
    """``2x3xf32`` as the shape and dtype of an operand called ``label``."""
    *sizes, dtype = text.split("x")
    return TensorSpec(tuple(int(size) for size in sizes), DTYPES[dtype], label)


def refusal(op: str, operands: dict[str, str] | list[str], attributes: dict[str, Any]) -> str:
    """The message and the hint with which an op refuses operands."""
    row = DECLARATIONS[op]
    if isinstance(operands, list):
        operands = dict(zip(operand_names(row, len(operands)), operands, strict=True))
    specs = [spec(text, "ABCDE"[n]) for n, text in enumerate(operands.values())]
    values = {p.name: p.default for p in row.attribute_parameters} | attributes
    with pytest.raises(InferenceError) as caught:
        row.infer(row.operands(list(operands), specs), values)
    assert caught.value.hint, "a refusal says what to do"
    return f"{caught.value.message} | {caught.value.hint}"


IMAGE, FILTER = "1x2x5x5xf32", "3x2x3x3xf32"

ROWS: tuple[tuple[str, Any, dict[str, Any], str], ...] = (
    ("slice", ["4xf32"], {"starts": (0, 1)}, r"starts \[0, 1\] has 2 entries, A.* has 1 axes"),
    ("slice", ["4xf32"], {"steps": (0,)}, "step cannot be 0"),
    ("slice", ["4xf32"], {"stops": (1.5,)}, "stops takes whole numbers or none, found 1.5"),
    ("pad", ["4xf32"], {"pad": (1,)}, "has 1 entries, A.* has 1 axes.*pair"),
    ("pad", ["4xf32"], {"pad": (-3, -2)}, "takes 5 of 4 elements of axis 0 of A"),
    ("pad", ["4xi8"], {"pad": (1, 1), "value": 300}, "i8 cannot hold 300, the dtype of A"),
    ("pad", ["4xf32"], {"pad": (1, 1), "mode": "mirror"}, "no mode='mirror'.*'reflect'"),
    ("pad", ["4xf32"], {"pad": (4, 0), "mode": "reflect"}, "4 and 0 .* axis 0 of A.*0 to 3"),
    ("pad", ["4xf32"], {"pad": (1, 1), "mode": "reflect", "interior": 1}, "no interior"),
    ("concat", [], {}, "needs at least one tensor"),
    ("concat", ["2x3xf32", "3x3xf32"], {"dim": 1}, "A.*tensor<2x3xf32> and B.*tensor<3x3xf32>"),
    ("concat", ["2xf32", "2xi32"], {}, "dtypes f32 and i32 do not mix"),
    ("stack", ["2xf32", "3xf32"], {}, "one shape, found A.* and B.*concat"),
    ("iota", [], {}, "either a size or a tensor"),
    ("iota", [], {"size": -1}, "no size"),
    ("iota", [], {"size": 3, "dtype": "bool"}, "number type, found 'bool'"),
    ("index_select", ["4xf32", "2xf32"], {"dim": 0}, "whole numbers as index, found B"),
    ("index_select", ["4xf32", "2x2xi32"], {"dim": 0}, "list of positions, found B"),
    ("gather", ["4x4xf32", "2xi32"], {"dim": 0}, "as many axes as its input: A.* and B"),
    ("gather", ["4x4xf32", "2x5xi32"], {"dim": 0}, "axis 1 of B.* has size 5, that of A.* 4"),
    ("embedding", ["3xi32", "4xf32"], {}, "table rows×width, found B"),
    ("embedding", ["4x2xf32", "3xi32"], {}, "whole numbers as index, found A"),
    ("one_hot", ["3xi32"], {"num_classes": 0}, "num_classes is a whole number from 1, found 0"),
    ("tril", ["3xf32"], {}, "needs …×M×N, found A"),
    ("squeeze", ["3xf32"], {"dim": 1}, "axis 1 is out of range for A"),
    ("narrow", ["5xf32"], {"dim": 0, "start": 3, "length": 4}, "4 elements from 3 .* axis 0 of A"),
    (
        "select",
        ["5xf32"],
        {"dim": 0, "index": 5},
        "index 5 is out of range for axis 0 of A.*-5 to 4",
    ),
    ("chunk", ["5xf32"], {"chunks": 2, "index": 2}, "index 2 .* which has 2 parts"),
    ("split", ["5xf32"], {"split_size": 0, "index": 0}, "split_size starts at 1, found 0"),
    ("roll", ["4x4xf32"], {"shifts": (1, 2), "dims": (0,)}, "2 shifts for 1 axes"),
    ("tile", ["4xf32"], {"dims": (-1,)}, "start at 0"),
    ("repeat_interleave", ["4xf32"], {"repeats": -1}, "starts at 0, found -1"),
    ("pixel_shuffle", ["1x3x2x2xf32"], {"upscale_factor": 2}, "by 2 needs .* found A"),
    ("glu", ["3xf32"], {}, "halves axis 0 of A.*, which has 3 elements"),
    ("prelu", ["1x4xf32", "3xf32"], {}, "each of the 4 channels of A.*, found B"),
    ("hardtanh", ["3xf32"], {"min_val": 2.0}, "are not a range"),
    ("bitwise_and", ["3xf32", "3xf32"], {}, "needs integers or bool, found A"),
    ("bitwise_left_shift", ["3xbool", "3xbool"], {}, "needs integers, found A"),
    ("exp2", ["3xi32"], {}, "needs a float type, found A"),
    ("argmax", ["3x0xf32"], {"dim": 1}, "argmax of no elements is undefined: A"),
    ("cumsum", ["3xbool"], {"dim": 0}, "needs numbers, found A"),
    ("reduce_any", ["3xf32"], {}, "needs bool, found A"),
    ("reduce_window", ["5xf32"], {"kind": "mean", "kernel_size": 2}, "no kind='mean'.*'sum'"),
    ("reduce_window", ["5xf32"], {"kind": "sum", "kernel_size": 6}, "window of 6 .* axis 0 of A"),
    ("reduce_window", ["5xf32"], {"kind": "sum", "kernel_size": (2, 2)}, "of 2 axes, A.* has 1"),
    ("reduce_window", ["5xf32"], {"kind": "sum", "kernel_size": 0}, "no window of kernel_size=0"),
    ("reduce_window", ["5xf32"], {"kind": "sum", "kernel_size": 2, "stride": (1, 1)}, "2 entries"),
    ("max_pool2d", ["4x4xf32"], {"kernel_size": 2}, "needs input N×C×H×W or C×H×W, found A"),
    (
        "max_pool2d",
        [IMAGE],
        {"kernel_size": 2, "padding": 2},
        "padding 2 is more than half of .* 2",
    ),
    ("max_pool2d", [IMAGE], {"kernel_size": 7}, "a window of 7 does not fit 5"),
    ("max_pool2d", [IMAGE], {"kernel_size": 2, "stride": 0}, "start at 1"),
    (
        "avg_pool2d",
        [IMAGE],
        {"kernel_size": 2, "divisor_override": 0},
        "divisor_override .* found 0",
    ),
    ("avg_pool2d", ["1x1x4x4xi32"], {"kernel_size": 2}, "needs a float type, found A"),
    ("adaptive_avg_pool2d", [IMAGE], {"output_size": 3}, "3 does not divide axis 2 of A.* 5"),
    ("adaptive_avg_pool2d", [IMAGE], {"output_size": (1, 1, 1)}, "3 entries"),
    ("global_max_pool", ["1x2x0xf32"], {}, "of no elements is undefined: A"),
    ("batch_norm", ["3xf32", "3xf32", "3xf32"], {}, "needs input N×C×…, found A"),
    ("batch_norm", ["1x3xf32", "3xf32", "4xf32"], {}, "running_var .* each of the 3 .* found C"),
    ("batch_norm", ["1x3xf32", "3xf32", "3xf32"], {"eps": -1.0}, "eps is a number from 0"),
    ("group_norm", ["1x4xf32"], {"num_groups": 3}, "num_groups=3 does not divide the 4 channels"),
    ("instance_norm", ["1x4xf32"], {}, "normalises the axes behind the channels"),
    ("instance_norm", ["1x4x2xf32"], {"use_input_stats": False}, "needs running_mean"),
    ("linear", ["2x3xf32", "4x5xf32"], {}, "last axis of A.* by the last of B"),
    ("linear", {"input": "2x3xf32", "weight": "4x3xf32", "bias": "5xf32"}, {}, r"\[4\], found C"),
    ("matmul_integer", ["2x3xi32", "3x2xi8"], {}, "takes i8 and u8, found A"),
    ("conv1d", ["1x2x5xf32", FILTER], {}, "input N×C×L and weight F×C×R, found A.* and B"),
    ("conv2d", [IMAGE, "3x1x3x3xf32"], {}, "axis 1 of A.* has size 2, axis 1 of B.* has size 1"),
    ("conv2d", [IMAGE, FILTER], {"groups": 3}, "groups=3 does not divide"),
    ("conv2d", [IMAGE, FILTER], {"padding": "same", "stride": 2}, "padding='same' needs stride 1"),
    ("conv2d", [IMAGE, FILTER], {"padding": "full"}, "no padding='full'.*'same' or 'valid'"),
    ("conv2d", [IMAGE, FILTER], {"dilation": 9}, "a window of 19 does not fit 5"),
    ("conv2d", {"input": IMAGE, "weight": FILTER, "bias": "2xf32"}, {}, r"\(3\), found C"),
    ("conv_transpose2d", [IMAGE, "3x2x3x3xf32"], {}, "size 2, axis 0 of B.* has size 3"),
    ("conv_transpose2d", [IMAGE, "2x2x3x3xf32"], {"output_padding": 1}, "must be smaller than"),
    ("conv_transpose2d", [IMAGE, "2x2x1x1xf32"], {"padding": 4}, "leaves -3 elements of axis 2"),
    ("conv_transpose2d", [IMAGE, "2x2x3x3xf32"], {"groups": 4}, "does not divide the 2 channels"),
    (
        "attention",
        ["2x3xf32", "2x4xf32", "2x4xf32"],
        {},
        "last axis of A.* has size 3, that of B.* 4",
    ),
    ("attention", ["2x3xf32", "4x3xf32", "5x3xf32"], {}, "B.* has 4 keys, C.* has 5"),
    ("attention", ["3xf32", "4x3xf32", "4x3xf32"], {}, "needs …×length×width, found A"),
    (
        "attention",
        {"query": "2x3xf32", "key": "4x3xf32", "value": "4x3xf32", "mask": "2x5xbool"},
        {},
        r"mask D.* does not stretch to the scores \[2, 4\]",
    ),
    (
        "attention",
        {"query": "2x3xf32", "key": "4x3xf32", "value": "4x3xf32", "mask": "2x4xi32"},
        {},
        "mask is bool or f32, found D",
    ),
    ("attention", ["3x2x4xf32", "2x2x4xf32", "2x2x4xf32"], {"enable_gqa": True}, "a multiple of"),
    ("cross_entropy", ["2x3xf32", "2xf32"], {}, "target holds class numbers, found B"),
    ("cross_entropy", ["2x3xf32", "3xi64"], {}, r"target has shape \[2\] for A.*, found B"),
    ("cross_entropy", ["2x3xf32", "2xi64"], {"reduction": "avg"}, "no reduction='avg'.*'mean'"),
    ("cross_entropy", ["2x3xf32", "2xi64"], {"label_smoothing": 2.0}, "goes from 0 to 1"),
    (
        "nll_loss",
        {"input": "2x3xf32", "target": "2xi64", "weight": "2xf32"},
        {},
        "3 classes, found C",
    ),
    ("mse_loss", ["2x3xf32", "3xf32"], {}, "one shape, found A.* and B"),
    ("quantize", ["3x4xf32", "4xf32"], {}, "scale is one number, found B.*axis=0"),
    ("quantize", ["3x4xf32", "5xf32"], {"axis": 1}, "4 along axis 1 of A.*, found B"),
    ("quantize", ["3xf32", "f16"], {}, "scale has the dtype of A.*, found B"),
    ("quantize", ["3xf32", "f32"], {"dtype": "f16"}, "no dtype='f16'.*i8, u8, i16 or i32"),
    ("dequantize", ["3xf32", "f32"], {}, "needs integers, found A"),
    ("dequantize", ["3xi8", "i8"], {}, "scale is a float, found B"),
    ("fake_quantize", ["3xf32", "f32"], {"quant_min": 5, "quant_max": 4}, "are not a range"),
    ("lerp", ["3xf32", "3xf32", "2xf32"], {}, "axis 0 of A.* has size 3, axis 0 of C.* has size 2"),
)


@pytest.mark.parametrize(("op", "operands", "attributes", "message"), ROWS)
def test_refusal_names_what_and_where(
    op: str, operands: Any, attributes: dict[str, Any], message: str
) -> None:
    found = refusal(op, operands, attributes)
    assert re.search(message, found), found
    text = found.split(" | ")[0]
    assert not text.endswith(".")


def test_every_refusal_in_the_rules_has_a_hint() -> None:
    without: list[str] = []
    for path in sorted(FOLDER.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            named = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "InferenceError"
            if named and len(node.args) + len(node.keywords) < 2 and path.name != "ops.py":
                without.append(f"{path.name}:{node.lineno}")
    assert not without
