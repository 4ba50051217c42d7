"""Ops on the bits of integers."""

from __future__ import annotations

from wia_compiler.dialects.wia.declaration import OpDeclaration
from wia_compiler.dialects.wia.pointwise import binary, unary

_SHIFTS = "An amount below 0 or not below the number of bits shifts everything out"

BITS: tuple[OpDeclaration, ...] = (
    binary("bitwise_and", "Bits that both have.", kind="whole").with_example(
        "bitwise_and(x, y)", x=[12, -1], y=[10, 7]
    ),
    binary("bitwise_or", "Bits that either has.", kind="whole").with_example(
        "bitwise_or(x, y)", x=[12, 0], y=[10, 7]
    ),
    binary("bitwise_xor", "Bits that one of the two has.", kind="whole").with_example(
        "bitwise_xor(x, y)", x=[12, 5], y=[10, 5]
    ),
    unary("bitwise_not", "Every bit the other way.", kind="whole").with_example(
        "bitwise_not(x)", x=[0, 5]
    ),
    binary(
        "bitwise_left_shift",
        f"Bits moved towards the high end, zeros follow. {_SHIFTS}: 0.",
        kind="integers",
    ).with_example("bitwise_left_shift(x, y)", x=[1, 3, 1], y=[4, 1, 32]),
    binary(
        "bitwise_right_shift",
        "Bits moved towards the low end; the sign follows, zeros for u8. "
        f"{_SHIFTS}: 0, or -1 for a negative number.",
        kind="integers",
    ).with_example("bitwise_right_shift(x, y)", x=[16, -16, -1], y=[2, 2, 40]),
)
