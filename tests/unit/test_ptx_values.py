"""What PTX instructions compute, against Python's own integers and fractions."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from ptx_texts import compute
from wia_compiler.base.errors import TargetError

RNG = np.random.default_rng(5)
INTEGERS = ["u16", "s16", "u32", "s32", "u64", "s64"]


def numbers(type: str, count: int = 200) -> np.ndarray:
    """Random bits and every extreme."""
    dtype = np.dtype(f"{'int' if type[0] == 's' else 'uint'}{type[1:]}")
    limits = np.iinfo(dtype)
    edge = [0, 1, 2, 3, limits.max, limits.max - 1, limits.min, limits.min + 1]
    some = RNG.integers(limits.min, limits.max, count - len(edge), dtype, endpoint=True)
    return np.concatenate([np.array(edge, dtype), some])


def wrapped(value: int, type: str) -> int:
    bits = int(type[1:])
    value %= 1 << bits
    return value - (1 << bits) if type[0] == "s" and value >> (bits - 1) else value


def quotient(a: int, b: int) -> int:
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return a if b == 0 else a - quotient(a, b) * b


OF_TWO: dict[str, Callable[[int, int, str], int]] = {
    "add": lambda a, b, t: a + b,
    "sub": lambda a, b, t: a - b,
    "mul.lo": lambda a, b, t: a * b,
    "mul.hi": lambda a, b, t: (a * b) >> int(t[1:]),
    "div": lambda a, b, t: quotient(a, b),
    "rem": lambda a, b, t: remainder(a, b),
    "min": lambda a, b, t: min(a, b),
    "max": lambda a, b, t: max(a, b),
}


@pytest.mark.parametrize("type", INTEGERS)
@pytest.mark.parametrize("name", OF_TWO)
def test_integers_of_two(name, type):
    a, b = numbers(type), RNG.permutation(numbers(type))
    a[:64], b[:64] = np.repeat(a[:8], 8), np.tile(a[:8], 8)
    found = compute(f"{name}.{type} %z, %a, %b", type, [a, b])
    expected = [
        wrapped(OF_TWO[name](int(x), int(y), type), type) for x, y in zip(a, b, strict=True)
    ]
    np.testing.assert_array_equal(found, np.array(expected, a.dtype))


@pytest.mark.parametrize("type", ["u16", "s16", "u32", "s32"])
def test_products_of_twice_the_width(type):
    a, b = numbers(type), RNG.permutation(numbers(type))
    wide = f"{type[0]}{int(type[1:]) * 2}"
    found = compute(f"mul.wide.{type} %z, %a, %b", type, [a, b], wide)
    assert [int(each) for each in found] == [int(x) * int(y) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("kind", "us")
def test_shifts_beyond_the_width(bits, kind):
    type = f"{kind}{bits}"
    a = numbers(type)
    for amount in (0, 1, bits - 1, bits, bits + 5, 2**31):
        left = compute(f"shl.b{bits} %z, %a, {amount}", type, [a])
        right = compute(f"shr.{type} %z, %a, {amount}", type, [a])
        few = min(amount, 200)
        assert [int(x) for x in left] == [wrapped(int(x) << few, type) for x in a]
        assert [int(x) for x in right] == [int(x) >> few for x in a]


def test_bits():
    a = numbers("u32")
    assert [*compute("popc.b32 %z, %a", "u32", [a])] == [int(x).bit_count() for x in a]
    assert [*compute("clz.b32 %z, %a", "u32", [a])] == [32 - int(x).bit_length() for x in a]
    reversed_ = [int(f"{int(x):032b}"[::-1], 2) for x in a]
    assert [*compute("brev.b32 %z, %a", "u32", [a])] == reversed_
    wide = numbers("u64")
    assert [*compute("clz.b64 %z, %a", "u64", [wide], "u32")] == [
        64 - int(x).bit_length() for x in wide
    ]
    highest = [int(x).bit_length() - 1 if x else 2**32 - 1 for x in a]
    assert [*compute("bfind.u32 %z, %a", "u32", [a])] == highest


@pytest.mark.parametrize("type", ["u32", "s32", "u64", "s64"])
def test_bit_fields(type):
    a, b = numbers(type), RNG.permutation(numbers(type))
    bits = int(type[1:])
    for position, length in [(0, 8), (4, 8), (28, 8), (0, 0), (31, 1), (0, 32), (bits - 1, 40)]:
        found = compute(f"bfe.{type} %z, %a, {position}, {length}", type, [a])
        for x, y in zip(a, found, strict=True):
            raw = int(x) % (1 << bits)
            field = (raw >> position) & ((1 << length) - 1)
            if type[0] == "s" and length:
                top = min(position + length - 1, bits - 1)
                if (raw >> top) & 1:
                    field |= -(1 << length)
            assert int(y) == wrapped(field, type)
        inserted = compute(f"bfi.b{bits} %z, %a, %b, {position}, {length}", type, [a, b])
        for x, y, z in zip(a, b, inserted, strict=True):
            mask = ((1 << length) - 1) << position
            wanted = (int(y) & ~mask) | ((int(x) << position) & mask)
            assert int(z) == wrapped(wanted, type)


def test_bytes_chosen_and_tables_of_logic():
    a, b, c = numbers("u32"), RNG.permutation(numbers("u32")), RNG.permutation(numbers("u32"))
    found = compute("prmt.b32 %z, %a, %b, 0x9c31", "u32", [a, b])
    for x, y, z in zip(a, b, found, strict=True):
        given = [*int(x).to_bytes(4, "little"), *int(y).to_bytes(4, "little")]
        sign = [255 if given[each & 7] & 128 else 0 for each in (0xC, 9)]
        assert int(z) == given[1] | given[3] << 8 | sign[0] << 16 | sign[1] << 24
    majority = compute("lop3.b32 %z, %a, %b, %c, 0xE8", "u32", [a, b, c])
    np.testing.assert_array_equal(majority, (a & b) | (a & c) | (b & c))


def test_funnel_shifts():
    a, b = numbers("u32"), RNG.permutation(numbers("u32"))
    for amount in (0, 1, 31, 32, 33, 63):
        for mode, count in (("wrap", amount & 31), ("clamp", min(amount, 32))):
            left = compute(f"shf.l.{mode}.b32 %z, %a, %b, {amount}", "u32", [a, b])
            right = compute(f"shf.r.{mode}.b32 %z, %a, %b, {amount}", "u32", [a, b])
            for x, y, low, high in zip(a, b, right, left, strict=True):
                both = (int(y) << 32) | int(x)
                assert int(low) == (both >> count) & 0xFFFFFFFF
                assert int(high) == ((both << count) >> 32) & 0xFFFFFFFF


def floats(count: int = 2000) -> np.ndarray:
    bits = RNG.integers(0, 2**32, count, np.uint32)
    some = bits.view(np.float32)
    some = np.where(np.isfinite(some), some, np.float32(1))
    edge = [0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38, 2**24, 0.1]
    return np.concatenate([np.array(edge, np.float32), some])


def nearest(exact: Fraction, mode: str = "rn") -> float:
    """A fraction as f32, rounded once; what is beyond the largest number is left out by callers."""
    if exact == 0:
        return 0.0
    exponent = max(_exponent(exact), -126)
    unit = Fraction(2) ** (exponent - 23)
    scaled = exact / unit
    whole = scaled.numerator // scaled.denominator
    rest = scaled - whole
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1),
        "rz": exact < 0 and rest > 0,
        "rm": False,
        "rp": rest > 0,
    }[mode]
    return float((whole + up) * unit)


def _exponent(value: Fraction) -> int:
    size = abs(value)
    guess = size.numerator.bit_length() - size.denominator.bit_length()
    return guess if size >= Fraction(2) ** guess else guess - 1


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
def test_floats_round_once(name, mode):
    a, b, c = floats(), RNG.permutation(floats()), RNG.permutation(floats())
    # Products that lie half-way between two floats, moved by next to nothing.
    a[50:250] = (1 + RNG.integers(0, 2**12, 200) / 2**12).astype(np.float32)
    b[50:250] = (1 + RNG.integers(0, 2**12, 200) / 2**12).astype(np.float32)
    c[50:250] = np.float32(2**-70) * RNG.choice([-1, 1, 0], 200)
    operands = [a, b, c] if name == "fma" else [a, b]
    sources = ", ".join(f"%{each}" for each in "abc"[: len(operands)])
    found = compute(f"{name}.{mode}.f32 %z, {sources}", "f32", operands)
    exact = {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "fma": lambda x, y, z: x * y + z,
    }[name]
    for place, row in enumerate(zip(*operands, strict=True)):
        value = exact(*(Fraction(float(each)) for each in row))
        if abs(value) < Fraction(2) ** 127:
            assert float(found[place]) == nearest(value, mode), (place, row)


def test_fused_products_of_doubles_round_once():
    a = 1 + RNG.integers(0, 2**52, 500) / 2**52
    b = 1 + RNG.integers(0, 2**52, 500) / 2**52
    c = -(a * b) * RNG.choice([1.0, 1 + 2**-30, 0.0, 2.0**60], 500)
    found = compute("fma.rn.f64 %z, %a, %b, %c", "f64", [a, b, c])
    for x, y, z, made in zip(a, b, c, found, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        assert Fraction(float(made)) == Fraction(float(exact)), (x, y, z)


@pytest.mark.parametrize("name,exact", [("add", lambda x, z: x + z), ("sub", lambda x, z: x - z)])
def test_a_half_and_a_float(name, exact):
    a = RNG.standard_normal(500).astype(np.float16)
    c = RNG.standard_normal(500).astype(np.float32)
    words = np.stack([a.view(np.uint16).astype(np.uint32), c.view(np.uint32)], axis=1)
    text = f"mov.b32 {{%h1, _}}, %a;\n{name}.rn.f32.f16 %z, %h1, %b"
    found = compute(text, "u32", [words[:, 0], words[:, 1]], "f32")
    np.testing.assert_array_equal(found, exact(a.astype(np.float32), c))


@pytest.mark.parametrize("text", ["mul.rn.f32.f16 %z, %a, %a", "add.s64.s32 %z, %a, %a"])
def test_types_that_do_not_belong_together(text):
    with pytest.raises(TargetError, match="not simulated"):
        compute(text, "u32", [np.ones(3, np.uint32)])


@pytest.mark.parametrize("name", ["add", "mul"])
def test_halves_round_once(name):
    a = RNG.integers(0, 2**15, 500).astype(np.uint16).view(np.float16)
    b = RNG.permutation(a)
    found = compute(f"{name}.rn.f16 %z, %a, %b", "f16", [a, b])
    with np.errstate(all="ignore"):
        exact = (np.add if name == "add" else np.multiply)(a.astype("f8"), b.astype("f8"))
        expected = exact.astype(np.float16)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(found[~np.isnan(found)], expected[~np.isnan(expected)])


def test_the_nan_of_the_hardware():
    a = np.array([np.nan, np.inf, 1.0], np.float32)
    a.view(np.uint32)[0] = 0xFFC12345
    b = np.array([1.0, -np.inf, np.nan], np.float32)
    found = compute("add.rn.f32 %z, %a, %b", "f32", [a, b])
    assert {*found.view(np.uint32)} == {0x7FFFFFFF}


def test_minimum_and_maximum():
    a = np.array([np.nan, 1.0, -0.0, 0.0, np.nan], np.float32)
    b = np.array([1.0, np.nan, 0.0, -0.0, np.nan], np.float32)
    smaller = compute("min.f32 %z, %a, %b", "f32", [a, b])
    np.testing.assert_array_equal(smaller, np.array([1, 1, -0.0, -0.0, np.nan], np.float32))
    assert np.signbit(smaller[2:4]).all()
    larger = compute("max.NaN.f32 %z, %a, %b", "f32", [a, b])
    np.testing.assert_array_equal(np.isnan(larger), [True, True, False, False, True])
    assert not np.signbit(larger[2:4]).any()


def test_subnormals_are_flushed_where_asked_to():
    a = np.array([1e-40, -1e-40, 1e-38], np.float32)
    kept = compute("mul.rn.f32 %z, %a, 0f3F000000", "f32", [a])
    flushed = compute("mul.rn.ftz.f32 %z, %a, 0f3F000000", "f32", [a])
    np.testing.assert_array_equal(kept, a * np.float32(0.5))
    np.testing.assert_array_equal(flushed, np.array([0.0, -0.0, 0.0], np.float32))
    assert np.signbit(flushed[1])


@pytest.mark.parametrize(
    "name,function",
    [
        ("ex2.approx", np.exp2),
        ("rcp.rn", lambda x: 1 / x),
        ("sqrt.rn", np.sqrt),
        ("rsqrt.approx", lambda x: 1 / np.sqrt(x)),
        ("lg2.approx", np.log2),
        ("sin.approx", np.sin),
        ("cos.approx", np.cos),
        ("tanh.approx", np.tanh),
    ],
)
def test_functions_are_correctly_rounded(name, function):
    a = np.abs(RNG.standard_normal(500)).astype(np.float32) + np.float32(0.01)
    found = compute(f"{name}.f32 %z, %a", "f32", [a])
    np.testing.assert_array_equal(found, function(a.astype(np.float64)).astype(np.float32))


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("type", ["s8", "u8", "s32", "u32", "s64", "u64"])
def test_floats_to_integers_saturate(mode, type):
    a = np.array(
        [0.5, 1.5, -0.5, -1.5, 2.5, 1e10, -1e10, 1e30, -1e30, np.inf, -np.inf, np.nan, 127.7],
        np.float32,
    )
    found = compute(f"cvt.{mode}.{type}.f32 %z, %a", "f32", [a], "s32" if type[1:] == "8" else type)
    whole = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode]
    dtype = np.dtype(f"{'int' if type[0] == 's' else 'uint'}{type[1:]}")
    limits = np.iinfo(dtype)
    for x, made in zip(a, found, strict=True):
        if np.isnan(x):
            # 0, or the top bit where the result has 64 bits (PTX ISA, cvt).
            wanted = wrapped(1 << 63, type) if type[1:] == "64" else 0
        else:
            wanted = int(min(max(whole(np.float64(x)), float(limits.min)), float(limits.max)))
            wanted = min(wanted, limits.max)
        assert int(made) == wanted, (x, made)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_doubles_to_floats(mode):
    a = RNG.standard_normal(500) * 10.0 ** RNG.integers(-30, 30, 500)
    found = compute(f"cvt.{mode}.f32.f64 %z, %a", "f64", [a], "f32")
    assert [float(each) for each in found] == [nearest(Fraction(float(x)), mode) for x in a]


@pytest.mark.parametrize("comparison", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_with_nan(comparison):
    a = np.array([1.0, 1.0, 2.0, np.nan, np.nan], np.float32)
    b = np.array([1.0, 2.0, 1.0, 1.0, np.nan], np.float32)
    plain = compute(f"setp.{comparison}.f32 %z, %a, %b", "f32", [a, b], "pred")
    unordered = compute(f"setp.{comparison}u.f32 %z, %a, %b", "f32", [a, b], "pred")
    function = getattr(np, {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
                            "gt": "greater", "ge": "greater_equal"}[comparison])  # fmt: skip
    np.testing.assert_array_equal(plain, function(a, b) & ~np.isnan(a) & ~np.isnan(b))
    np.testing.assert_array_equal(unordered, function(a, b) | np.isnan(a) | np.isnan(b))


@pytest.mark.parametrize("text", ["tex.2d %z, %a", "add.rn.bogus.f32 %z, %a, %a", "frob %z, %a"])
def test_what_is_not_simulated_says_its_line(text):
    with pytest.raises(TargetError, match="not simulated") as caught:
        compute(text, "f32", [np.ones(3, np.float32)])
    assert text.split()[0] in str(caught.value) and "^" in str(caught.value)
