"""Numbers as people read them: ``103 MB``, ``11.1 GFLOP``, ``0.4 ms``, ``f32[8×3×224×224]``."""

from __future__ import annotations

import re

_TENSOR = re.compile(r"(?:tensor|memref|vector)<((?:[\d?]+x)*)([\w!.]+)(?:,.*)?>")


def scaled(value: float, unit: str) -> str:
    """Three digits and a decimal prefix: ``scaled(1.11e10, "FLOP")`` = ``11.1 GFLOP``."""
    magnitude = abs(value)
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if magnitude >= factor * 0.9995:
            return f"{_digits(value / factor)} {prefix}{unit}"
    return f"{_digits(value)} {unit}"


def size(size_bytes: float) -> str:
    """Bytes with a decimal prefix."""
    return scaled(size_bytes, "B").replace("kB", "KB")


def duration(time_ns: float) -> str:
    """A time: ns, µs, ms or s with up to three digits."""
    for factor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if time_ns >= factor * 0.9995:
            return f"{_digits(time_ns / factor)} {unit}"
    return f"{_digits(time_ns)} ns"


def number(value: float | int | str | bool) -> str:
    """A cell of a table: integers in full up to seven digits, floats with three to four digits."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return (
            f"{value:,}".replace(",", "\u202f") if abs(value) < 10**7 else scaled(value, "").strip()
        )
    if value != value or value in (float("inf"), float("-inf")):
        return {float("inf"): "∞", float("-inf"): "−∞"}.get(value, "–")
    if abs(value) >= 10000:
        return scaled(value, "").strip() if abs(value) < 1e15 else f"{value:.3g}"
    return (
        f"{value:.2f}"
        if 0.01 <= abs(value) < 100
        else f"{value:.0f}"
        if abs(value) >= 100
        else f"{value:.3g}"
    )


def type_text(type_name: str) -> str:
    """An MLIR type as signatures spell it: ``tensor<8x3xf32>`` → ``f32[8×3]``; others unchanged."""
    match = _TENSOR.fullmatch(type_name)
    if match is None:
        return {"!wia.tensor": "tensor", "!wia.literal": "literal"}.get(type_name, type_name)
    sizes = match[1].rstrip("x").replace("x", "×")
    return f"{match[2]}[{sizes}]" if sizes else match[2]


def sizes_text(type_name: str) -> str:
    """The sizes of a type alone: ``tensor<64x224xf32>`` → ``64×224``; empty for anything else."""
    match = _TENSOR.fullmatch(type_name)
    return match[1].rstrip("x").replace("x", "×") if match else ""


def plural(count: int, noun: str) -> str:
    """``1 op``, ``2 ops``, ``2 launches``."""
    ending = "" if count == 1 else "es" if noun.endswith(("ch", "s")) else "s"
    return f"{count} {noun}{ending}"


def _digits(value: float) -> str:
    magnitude = abs(value)
    text = (
        f"{value:.0f}"
        if magnitude >= 99.95
        else f"{value:.1f}"
        if magnitude >= 9.995
        else f"{value:.2f}"
    )
    if magnitude < 9.995 and "." in text:
        text = text.rstrip("0").rstrip(".")
    return text.removesuffix(".0")
