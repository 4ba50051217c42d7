"""What instructions give for edge values, each against a formula of its own, on both engines.

All rows of a table run in one kernel: a thread for each combination of values.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from ptx_texts import engine_alone
from wia_compiler.simulators.ptx import run
from wia_compiler.simulators.ptx.types import TYPES

Formula = Callable[..., Any]
Row = tuple[str, str, str, Formula]
INF, NAN = math.inf, math.nan
EDGES: dict[str, list[Any]] = {
    "u32": [0, 1, 2, 3, 5, 31, 32, 33, 0x7FFFFF, 0x800001, 0x12345678, 2**31 - 1, 2**31, 2**32 - 1],
    "s32": [0, 1, -1, 2, -5, 31, 32, -33, 0x7FFFFF, -0x800001, 2**31 - 1, -(2**31)],
    "f32": [0.0, -0.0, 1.0, -1.5, 3.0, 0.1, -1e38, 3e38, 1e-45, -1e-39, INF, -INF, NAN],
    "f64": [0.0, 1.0, -3.0, 0.1, 1e10, -7e-5, 2.5, 1 / 3, INF, NAN],
    "f16": [0.0, -0.0, 1.0, -2.5, 65504.0, 6e-8, INF, -INF, NAN],
    "bf16": [0.0, -0.0, 1.0, -2.5, 3e38, 1e-40, INF, -INF, NAN],
}
_DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


def to_bits(value: Any, type: str) -> int:
    if type in _DTYPES:
        number = np.array(value, _DTYPES[type])
        return int(number.view(f"u{number.itemsize}"))
    return int(value) % (1 << TYPES[type].bits)


def signed(value: int, bits: int = 32) -> int:
    value %= 1 << bits
    return value - (1 << bits) if value >> (bits - 1) else value


def limited(value: int) -> int:
    return max(-(2**31), min(2**31 - 1, value))


def low24(value: int, kind: str) -> int:
    return signed(value, 24) if kind == "s" else value % (1 << 24)


def mask_of(mode: str, a: int, b: int) -> int:
    if mode == "wrap":
        a, b = a % 32, b % 32
    return sum(1 << place for place in range(a, min(a + b, 32)))


def extended(mode: str, kind: str, a: int, b: int) -> int:
    bits = b % 32 if mode == "wrap" else b
    if bits >= 32:
        return a
    low = a % (1 << bits) if bits else 0
    negative = kind == "s" and bits and low >> (bits - 1)
    return low - (1 << bits) if negative else low


def nth_set(mask: int, base: int, offset: int) -> int:
    base %= 32
    places = range(base, 32) if offset > 0 else range(base, -1, -1)
    found = [place for place in places if mask >> place & 1]
    if offset == 0:
        return base if mask >> base & 1 else 2**32 - 1
    return found[abs(offset) - 1] if len(found) >= abs(offset) else 2**32 - 1


def looked_up(table: int, a: int, b: int, c: int) -> int:
    return sum(
        (table >> ((a >> n & 1) << 2 | (b >> n & 1) << 1 | (c >> n & 1)) & 1) << n
        for n in range(32)
    )


def permuted(mode: str, a: int, b: int, c: int) -> int:
    """The bytes of b:a as a mode of ``prmt`` takes them (table 35 of the PTX ISA)."""
    n = c & 3
    order = {
        "f4e": [n, n + 1, n + 2, n + 3],
        "b4e": [n, (n - 1) % 8, (n - 2) % 8, (n - 3) % 8],
        "rc8": [n] * 4,
        "ecl": [max(n, place) for place in range(4)],
        "ecr": [min(n, place) for place in range(4)],
        "rc16": [0, 1, 0, 1] if not c & 1 else [2, 3, 2, 3],
    }[mode]
    both = b << 32 | a
    return sum((both >> 8 * at & 255) << 8 * place for place, at in enumerate(order))


def extreme(kind: str, words: str, *values: float) -> float:
    sign = math.copysign(1, values[0]) * math.copysign(1, values[1])
    if "abs" in words:
        values = tuple(abs(each) for each in values)
    if any(math.isnan(each) for each in values) and "NaN" in words:
        return NAN
    some = [each for each in values if not math.isnan(each)]
    if not some:
        return NAN
    # -0 is less than +0.
    key = [(each, math.copysign(1, each)) for each in some]
    made = (min(key) if kind == "min" else max(key))[0]
    return math.copysign(made, sign) if "xorsign" in words else made


def exact_root(value: Fraction, digits: int = 400) -> Fraction:
    scaled = value * (1 << 2 * digits)
    return Fraction(math.isqrt(scaled.numerator // scaled.denominator), 1 << digits)


def rounded(value: Fraction, mode: str, is_cut: bool = False) -> float:
    """A number in f64; ``is_cut``: the true one is a little larger, unless it is exact."""
    near = float(value)
    error = value - Fraction(near)
    if mode == "rz":
        mode = "rm" if value > 0 else "rp"
    if mode == "rm":
        return math.nextafter(near, -INF) if error < 0 else near
    return math.nextafter(near, INF) if error > 0 or (is_cut and error == 0) else near


def in_double(mode: str, formula: Callable[..., Fraction], plain: Formula) -> Formula:
    """A formula of fractions, rounded; where it has none (0, infinity, NaN) another one."""

    def compute(*values: float) -> float:
        try:
            exact = formula(*map(Fraction, values))
            return rounded(exact, mode) if exact else plain(*values)
        except (ValueError, OverflowError, ZeroDivisionError):
            return plain(*values)

    return compute


def quotient(a: float, b: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(a) / np.float64(b))


def halves(type: str, formula: Formula) -> Formula:
    """An operation on each half of words, whose numbers are given as pairs."""

    def compute(*words: int) -> int:
        made = 0
        for half in range(2):
            numbers = [
                np.array(word >> 16 * half & 0xFFFF, np.uint16).view(_DTYPES[type])
                for word in words
            ]
            made |= to_bits(formula(*map(float, numbers)), type) << 16 * half
        return made

    return compute


def compared(type: str, formula: Callable[[float, float], bool]) -> Formula:
    def compute(a: int, b: int) -> int:
        made = 0
        for half in range(2):
            x, y = (
                float(np.array(word >> 16 * half & 0xFFFF, np.uint16).view(_DTYPES[type]))
                for word in (a, b)
            )
            made |= formula(x, y) << half
        return made

    return compute


PAIRS = {
    type: [
        to_bits(a, type) | to_bits(b, type) << 16
        for a, b in zip(EDGES[type], [*EDGES[type][3:], *EDGES[type][:3]], strict=True)
    ]
    for type in ("f16", "bf16")
}
EDGES |= {"f16x2": PAIRS["f16"], "bf16x2": PAIRS["bf16"]}
ALL_TWO = "setp.{} %p0|%p1, %a, %b; selp.u32 %z, 1, 0, %p0; @%p1 or.b32 %z, %z, 2"


def with_sign(a: float, b: float) -> int:
    """The bits of b, a NaN's too, with the sign of a."""
    return to_bits(b, "f32") & 0x7FFFFFFF | (math.copysign(1, a) < 0) << 31


INTEGERS: list[Row] = [
    ("add.sat.s32 %z, %a, %b", "s32 s32", "s32", lambda a, b: limited(a + b)),
    ("sub.sat.s32 %z, %a, %b", "s32 s32", "s32", lambda a, b: limited(a - b)),
    (
        "mad.hi.sat.s32 %z, %a, %b, %c",
        "s32 s32 s32",
        "s32",
        lambda a, b, c: limited((a * b >> 32) + c),
    ),
    *(
        (
            f"mul24.{part}.{kind}32 %z, %a, %b",
            f"{kind}32 {kind}32",
            f"{kind}32",
            lambda a, b, k=kind, s=16 * (part == "hi"): low24(a, k) * low24(b, k) >> s,
        )
        for part in ("lo", "hi")
        for kind in "us"
    ),
    (
        "mad24.lo.u32 %z, %a, %b, %c",
        "u32 u32 u32",
        "u32",
        lambda a, b, c: low24(a, "u") * low24(b, "u") + c,
    ),
    (
        "mad24.hi.sat.s32 %z, %a, %b, %c",
        "s32 s32 s32",
        "s32",
        lambda a, b, c: limited((low24(a, "s") * low24(b, "s") >> 16) + c),
    ),
    *(
        (f"bmsk.{mode}.b32 %z, %a, %b", "u32 u32", "u32", lambda a, b, m=mode: mask_of(m, a, b))
        for mode in ("clamp", "wrap")
    ),
    *(
        (
            f"szext.{mode}.{kind}32 %z, %a, %b",
            "u32 u32",
            "u32",
            lambda a, b, m=mode, k=kind: extended(m, k, a, b),
        )
        for mode in ("clamp", "wrap")
        for kind in "us"
    ),
    ("and.b32 %b, %b, 31; fns.b32 %z, %a, %b, %c", "u32 u32 s32", "u32", nth_set),
    (
        "setp.gt.u32 %p1, %b, 2; lop3.or.b32 %z|%p0, %a, %b, %c, 0x96, %p1; selp.u32 %z, 1, 0, %p0",
        "u32 u32 u32",
        "u32",
        lambda a, b, c: int(looked_up(0x96, a, b, c) != 0 or b > 2),
    ),
    (
        "setp.gt.u32 %p1, %b, 2; lop3.and.b32 %z|%p0, %a, %b, %c, 0xE8, %p1; @%p0 not.b32 %z, %z",
        "u32 u32 u32",
        "u32",
        lambda a, b, c: (lambda d: ~d if d and b > 2 else d)(looked_up(0xE8, a, b, c)),
    ),
    ("min.relu.s32 %z, %a, %b", "s32 s32", "s32", lambda a, b: max(0, min(a, b))),
    (
        "max.relu.s16x2 %z, %a, %b",
        "u32 u32",
        "u32",
        lambda a, b: sum(max(0, signed(a >> s, 16), signed(b >> s, 16)) << s for s in (0, 16)),
    ),
    *(
        (
            f"prmt.b32.{mode} %z, %a, %b, %c",
            "u32 u32 u32",
            "u32",
            lambda a, b, c, m=mode: permuted(m, a, b, c),
        )
        for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
    ),
    ("slct.u32.s32 %z, %a, %b, %c", "u32 u32 s32", "u32", lambda a, b, c: a if c >= 0 else b),
    ("slct.u32.f32 %z, %a, %b, %c", "u32 u32 f32", "u32", lambda a, b, c: a if c >= 0 else b),
    ("sad.s32 %z, %a, %b, %c", "s32 s32 s32", "s32", lambda a, b, c: abs(a - b) + c),
    ("cnot.b32 %z, %a", "u32", "u32", lambda a: int(a == 0)),
    (
        "bfind.shiftamt.s32 %z, %a",
        "s32",
        "u32",
        lambda a: 31 - ((a if a >= 0 else ~a).bit_length() - 1) if a not in (0, -1) else 2**32 - 1,
    ),
]
FLOATS: list[Row] = [
    *(
        (
            f"{kind}{words}.f32 %z, %a, %b",
            "f32 f32",
            "f32",
            lambda a, b, k=kind, w=words: extreme(k, w, a, b),
        )
        for kind in ("min", "max")
        for words in ("", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs")
    ),
    *(
        (
            f"{kind}{words}.f32 %z, %a, %b, %c",
            "f32 f32 f32",
            "f32",
            lambda a, b, c, k=kind, w=words: extreme(k, w, a, b, c),
        )
        for kind in ("min", "max")
        for words in ("", ".NaN", ".abs", ".NaN.abs")
    ),
    (
        "fma.rm.f64 %z, %a, %b, %c",
        "f64 f64 f64",
        "f64",
        in_double("rm", lambda a, b, c: a * b + c, lambda a, b, c: float(np.float64(a) * b + c)),
    ),
    (
        "fma.rz.f64 %z, %a, %b, %c",
        "f64 f64 f64",
        "f64",
        in_double("rz", lambda a, b, c: a * b + c, lambda a, b, c: float(np.float64(a) * b + c)),
    ),
    *(
        (
            f"div.{mode}.f64 %z, %a, %b",
            "f64 f64",
            "f64",
            in_double(mode, lambda a, b: a / b, quotient),
        )
        for mode in ("rz", "rm", "rp")
    ),
    *(
        (
            f"rcp.{mode}.f64 %z, %a",
            "f64",
            "f64",
            in_double(mode, lambda a: 1 / a, lambda a: quotient(1.0, a)),
        )
        for mode in ("rz", "rm", "rp")
    ),
    *(
        (
            f"abs.f64 %a, %a; sqrt.{mode}.f64 %z, %a",
            "f64",
            "f64",
            lambda a, m=mode: (
                rounded(exact_root(Fraction(abs(a))), m, math.sqrt(abs(a)) ** 2 != abs(a))
                if math.isfinite(a)
                else abs(a)
            ),
        )
        for mode in ("rm", "rp")
    ),
    ("copysign.f32 %z, %a, %b", "f32 f32", "u32", with_sign),
    (
        "testp.subnormal.f32 %p0, %a; selp.u32 %z, 1, 0, %p0",
        "f32",
        "u32",
        lambda a: int(0 < abs(a) < 2.0**-126),
    ),
]
HALVES: list[Row] = [
    *(
        (
            ALL_TWO.format(f"lt.{type}x2"),
            f"{type}x2 {type}x2",
            "u32",
            compared(type, lambda x, y: x < y),
        )
        for type in ("f16", "bf16")
    ),
    (ALL_TWO.format("neu.f16x2"), "f16x2 f16x2", "u32", compared("f16", lambda x, y: x != y)),
    (
        "setp.ne.u32 %p2, %a, 0; setp.le.and.f16x2 %p0|%p1, %a, %b, %p2; "
        "selp.u32 %z, 1, 0, %p0; @%p1 or.b32 %z, %z, 2",
        "f16x2 f16x2",
        "u32",
        lambda a, b: compared("f16", lambda x, y: x <= y)(a, b) if a else 0,
    ),
    (
        "set.lt.f16x2.f16x2 %z, %a, %b",
        "f16x2 f16x2",
        "f16x2",
        halves("f16", lambda x, y: float(x < y)),
    ),
    (
        "set.gtu.u32.f16x2 %z, %a, %b",
        "f16x2 f16x2",
        "u32",
        lambda a, b: sum(
            0xFFFF << 16 * h
            for h in range(2)
            if compared("f16", lambda x, y: not x <= y)(a, b) >> h & 1
        ),
    ),
    *(
        (
            f"max.NaN.xorsign.abs.{type}x2 %z, %a, %b",
            f"{type}x2 {type}x2",
            f"{type}x2",
            halves(type, lambda x, y: extreme("max", ".NaN.xorsign.abs", x, y)),
        )
        for type in ("f16", "bf16")
    ),
    *(
        (f"{name}.{type} %z, %a", type, type, halves(type[:-2], formula))
        for name, formula in (
            ("tanh.approx", math.tanh),
            ("ex2.approx", lambda x: float(np.exp2(np.float64(x)))),
        )
        for type in ("f16x2", "bf16x2")
        if (name, type) != ("ex2.approx", "bf16x2")
    ),
    (
        "fma.rn.relu.f16x2 %z, %a, %b, %b",
        "f16x2 f16x2",
        "f16x2",
        halves(
            "f16", lambda x, y: (lambda r: r if not r < 0 else 0.0)(float(np.float64(x) * y + y))
        ),
    ),
    (
        "cvt.rn.satfinite.e4m3x2.f32 %h0, %a, %b; cvt.u32.u16 %z, %h0",
        "f32 f32",
        "u32",
        lambda a, b: eighth(a) << 8 | eighth(b),
    ),
    (
        "cvt.rn.relu.f16x2.f32 %z, %a, %b",
        "f32 f32",
        "f16x2",
        lambda a, b: half_of(a) << 16 | half_of(b),
    ),
    (
        "{ .reg .b64 %x, %y; mov.b64 %x, {%a, %b}; mov.b64 %y, {%b, %a};"
        " fma.rn.f32x2 %x, %x, %y, %y; mov.b64 {%z, %c}, %x; }",
        "f32 f32",
        "f32",
        lambda a, b: fused(a, b, b),
    ),
    (
        "{ .reg .b64 %x, %y; mov.b64 %x, {%a, %b}; mov.b64 %y, {%b, %a};"
        " add.rz.ftz.f32x2 %x, %x, %y; mov.b64 {%c, %z}, %x; }",
        "f32 f32",
        "f32",
        lambda a, b: cut(flushed(a), flushed(b)),
    ),
]


def fused(a: float, b: float, c: float) -> float:
    """a b + c as the nearest f32, ties to even."""
    if not all(map(math.isfinite, (a, b, c))):
        return float(np.float64(a) * b + c)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    near = np.float32(float(np.float64(a) * b + c))
    if not np.isfinite(near) or exact == 0:
        return float(near)
    near = np.float32(float(exact))
    sides = (np.nextafter(near, np.float32(way)) for way in (-np.inf, np.inf))
    every = [each for each in (near, *sides) if np.isfinite(each)]
    return float(
        min(every, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1))
    )


def flushed(value: float) -> float:
    return math.copysign(0.0, value) if abs(value) < 2.0**-126 else value


def cut(a: float, b: float) -> float:
    """A sum of two f32, towards zero, and flushed."""
    near = fused(a, 1.0, b)
    if math.isfinite(near) and abs(Fraction(near)) > abs(Fraction(a) + Fraction(b)):
        near = float(np.nextafter(np.float32(near), np.float32(0)))
    return flushed(near)


def eighth(value: float) -> int:
    """One e4m3: at most 448, NaN 0x7f."""
    if math.isnan(value):
        return 0x7F
    kept = max(-448.0, min(448.0, value))
    return int(np.array(kept, np.float32).astype(ml_dtypes.float8_e4m3fn).view(np.uint8))


def half_of(value: float) -> int:
    with np.errstate(all="ignore"):
        made = np.array(value, np.float32).astype(np.float16)
    return 0x7FFF if math.isnan(value) else 0 if made < 0 else int(made.view(np.uint16))


def kernel(rows: list[Row], threads: int) -> str:
    """Each row on the words of a thread: of row r and thread t the three from 3 (r T + t) on."""
    lines = [
        ".version 8.7\n.target sm_100\n.address_size 64",
        ".visible .entry k(.param .u64 in, .param .u64 out)\n{",
        ".reg .b64 %in, %out, %at; .reg .b32 %t;",
        "ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x;",
        "mad.wide.u32 %in, %t, 24, %in; mad.wide.u32 %out, %t, 8, %out;",
    ]
    for number, (text, sources, result, _) in enumerate(rows):
        lines.append("{ .reg .pred %p<4>; .reg .b16 %h<2>;")
        types = sources.split()
        for name, type in itertools.zip_longest("abc", types, fillvalue="u32"):
            lines.append(f".reg .b{TYPES[type].bits} %{name};")
        lines.append(f".reg .b{TYPES[result].bits} %z;")
        for place, (name, type) in enumerate(zip("abc", types, strict=False)):
            offset = 24 * threads * number + 8 * place
            lines.append(f"ld.global.b{TYPES[type].bits} %{name}, [%in+{offset}];")
        end = "" if text.endswith("}") else ";"
        lines.append(f"{text}{end}")
        lines.append(f"st.global.b{TYPES[result].bits} [%out+{8 * threads * number}], %z; }}")
    return "\n".join([*lines, "ret;\n}\n"])


@pytest.mark.parametrize("engine", ["numpy", "compiled"])
@pytest.mark.parametrize("rows", [INTEGERS, FLOATS, HALVES], ids=["integers", "floats", "halves"])
def test_edge_values(rows: list[Row], engine: Any) -> None:
    threads = 96
    values: list[list[tuple[Any, ...]]] = []
    given = np.zeros((len(rows), threads, 3), np.uint64)
    for number, (_, sources, _, _) in enumerate(rows):
        types = sources.split()
        every = list(itertools.product(*(EDGES[type] for type in types)))
        # A stride that is coprime to the count walks through all combinations.
        step = 1 if len(every) <= threads else 97
        chosen = [every[(place * step) % len(every)] for place in range(threads)]
        values.append(chosen)
        for thread, operands in enumerate(chosen):
            for place, (value, type) in enumerate(zip(operands, types, strict=True)):
                given[number, thread, place] = to_bits(value, type)
    found = np.zeros((len(rows), threads), np.uint64)
    with engine_alone(engine):
        run(kernel(rows, threads), "k", 1, threads, [given, found], engine=engine)
    for number, (text, sources, result, formula) in enumerate(rows):
        for thread, operands in enumerate(values[number]):
            # f32 operands are what they are in 32 bits.
            exact = [
                float(np.float32(value)) if type == "f32" else value
                for value, type in zip(operands, sources.split(), strict=True)
            ]
            with np.errstate(all="ignore"):
                expected = formula(*exact)
                wanted = to_bits(expected, result)
            is_nan = isinstance(expected, float) and math.isnan(expected)
            got = int(found[number, thread])
            if is_nan:
                wanted = {"f32": 0x7FFFFFFF, "f64": 0x7FF8000000000000}[result]
            if result in ("f16x2", "bf16x2"):
                got, wanted = canonical(got, result), canonical(wanted, result)
            assert got == wanted, f"{text} of {exact}: {got:#x}, expected {wanted:#x}"


def canonical(word: int, type: str) -> int:
    """Every NaN half the one of the hardware."""
    top = {"f16x2": 0x7C00, "bf16x2": 0x7F80}[type]
    parts = [word & 0xFFFF, word >> 16 & 0xFFFF]
    parts = [0x7FFF if (part & 0x7FFF) > top else part for part in parts]
    return parts[1] << 16 | parts[0]
