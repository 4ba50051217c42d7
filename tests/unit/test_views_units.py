"""Numbers as people read them."""

import pytest
from wia_notebook.views import units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 FLOP"),
        (999, "999 FLOP"),
        (1000, "1 kFLOP"),
        (999_950, "1 MFLOP"),
        (25_690_112, "25.7 MFLOP"),
        (11_098_128_384, "11.1 GFLOP"),
        (3.2e13, "32 TFLOP"),
    ],
)
def test_scaled_keeps_three_digits(value, text):
    assert units.scaled(value, "FLOP") == text


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "0 ns"),
        (17, "17 ns"),
        (1500, "1.5 µs"),
        (999_600, "1 ms"),
        (21_000_000, "21 ms"),
        (3e9, "3 s"),
    ],
)
def test_duration(time_ns, text):
    assert units.duration(time_ns) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "yes"),
        (0, "0"),
        (1234, "1\u202f234"),
        (1.5, "1.50"),
        (102.338, "102"),
        (10_050_008.0, "10.1 M"),
        (float("inf"), "∞"),
        (float("nan"), "–"),
        ("div", "div"),
    ],
)
def test_number(value, text):
    assert units.number(value) == text


@pytest.mark.parametrize(
    ("type_name", "text"),
    [
        ("tensor<8x3x224x224xf32>", "f32[8×3×224×224]"),
        ("tensor<f32>", "f32"),
        ("memref<0x17xbf16, strided<[17, 1]>>", "bf16[0×17]"),
        ("!wia.tensor", "tensor"),
        ("index", "index"),
    ],
)
def test_type_text(type_name, text):
    assert units.type_text(type_name) == text


def test_size_and_plural():
    assert units.size(102_760_448) == "103 MB"
    assert units.size(17) == "17 B"
    assert units.plural(1, "launch") == "1 launch"
    assert units.plural(2, "launch") == "2 launches"
    assert units.plural(0, "op") == "0 ops"
