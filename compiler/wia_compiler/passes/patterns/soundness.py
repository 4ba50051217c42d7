"""Whether a rewrite computes what its match does, tried through the reference before it may fire.

Both sides run on boundary values and random numbers, on small arrays of the same form: sizes are
shrunk, equal ones stay equal, and axes of size 1 stay 1, so that what is broadcast still is. Small
arrays are also tried as they are.

A result may differ by the roundings of both sides: one unit in the last place for each arithmetic
op, two for each function, by the contract; where ops fold elements, relative to the largest value
on the way. Integers, NaN, infinities and the sign of a zero have to agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from wia_compiler.base.errors import CompileError
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.patterns import trials
from wia_compiler.passes.patterns.pattern import Pattern
from wia_compiler.passes.patterns.specialized import Side, listed, sides, specialize
from wia_compiler.reference.rounding import Array

_SMALL: Final = 1 << 12
"""Elements of the free values up to which the arrays themselves are tried."""
_FEASIBLE: Final = 1 << 20
"""… and beyond which a pattern whose sizes cannot be shrunk is not tried at all."""
_COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge", "min", "max", "relu", "clamp", "where")
_LOGIC: Final = ("logical_and", "logical_or", "logical_not", "reduce_max", "reduce_min")
_EXACT: Final = frozenset({*_COMPARISONS, *_LOGIC, "neg", "abs", "floor", "ceil", "round"})
_ROUNDED_ONCE: Final = frozenset({"add", "sub", "mul", "div", "sqrt", "cast", "floordiv", "mod"})


@dataclass(frozen=True)
class Checked:
    """What came of a check: on how many inputs, and the largest difference that was allowed."""

    trials: int
    difference: float = 0.0


@dataclass(frozen=True)
class Counterexample:
    """One element on which a rewrite gives another value than its match.

    ``index`` is where in the result it stands, empty where the inputs are those of one element.
    """

    inputs: tuple[str, ...]
    index: tuple[int, ...]
    expected: str
    got: str


def check(pattern: Pattern, specs: Sequence[TensorSpec], context: PassContext) -> Checked | str:
    """How far the rewrite agrees with its match; why it could not be tried, where it could not.

    Raises ``CompileError`` at the pattern, with the counterexample, where they differ.
    """
    sides(pattern, specs, context)
    elements = sum(spec.num_elements for spec in specs)
    shrunk = _shrunk(pattern, specs, context)
    chosen = [each for each in (shrunk, tuple(specs)) if each is not None]
    if shrunk is not None and (elements > _SMALL or shrunk == tuple(specs)):
        chosen = [shrunk]
    elif shrunk is None and elements > _FEASIBLE:
        return f"its sizes cannot be shrunk, and {elements} elements are too many to try"
    done = [_check_sizes(pattern, each, context) for each in chosen]
    wrong = [each for each in done if isinstance(each, _Difference)]
    if wrong and len(wrong) < len(done) and isinstance(done[-1], Checked):
        return done[-1]  # the sizes are part of what the pattern says: a mean of 8 elements
    if wrong:
        raise _error(pattern, wrong[0])
    counted = [each for each in done if isinstance(each, Checked)]
    return Checked(sum(c.trials for c in counted), max(c.difference for c in counted))


@dataclass(frozen=True)
class _Difference:
    found: Counterexample
    specs: tuple[TensorSpec, ...]
    match: Side
    rewrite: Side


def _check_sizes(
    pattern: Pattern, specs: tuple[TensorSpec, ...], context: PassContext
) -> Checked | _Difference:
    match, rewrite = sides(pattern, specs, context)
    elementwise = all(op.declaration.family == "elementwise" for op in (*match.ops, *rewrite.ops))
    batches: Iterator[list[Array]]
    if elementwise:
        batch = trials.rows(specs)
        batches = iter([batch])
        widened = tuple(
            TensorSpec(array.shape, spec.dtype) for array, spec in zip(batch, specs, strict=True)
        )
        match, rewrite = sides(pattern, widened, context)
    else:
        batches = trials.trials(specs, 6 if sum(s.num_elements for s in specs) > 512 else 24)
    count, largest = 0, 0.0
    for arrays in batches:
        expected, got = match.run(arrays), rewrite.run(arrays)
        scale = _scale(arrays, expected) if not elementwise else None
        count += len(arrays[0]) if elementwise and arrays else 1
        for one, other, spec in zip(expected, got, match.results, strict=True):
            roundings = _roundings(match.ops) + _roundings(rewrite.ops)
            bad, difference = _compare(one, other, spec, roundings, scale)
            largest = max(largest, difference)
            if bad is not None:
                inputs = _inputs(pattern, arrays, one, bad, elementwise)
                at = () if elementwise else bad
                shown = Counterexample(inputs, at, _number(one[bad]), _number(other[bad]))
                return _Difference(shown, specs, match, rewrite)
    return Checked(count, largest)


def _compare(
    expected: Array, got: Array, spec: TensorSpec, roundings: int, scale: float | None
) -> tuple[tuple[int, ...] | None, float]:
    """The first index at which two results differ, and the largest difference in units."""
    if not spec.dtype.is_float:
        differs = expected != got
        return (_first(differs), 0.0) if differs.any() else (None, 0.0)
    limits = trials.Limits.of(spec.dtype)
    with np.errstate(all="ignore"):
        one, other = expected.astype(np.float64), got.astype(np.float64)
        unit = limits.epsilon * np.abs(one)
        if scale is not None:
            unit = np.maximum(unit, limits.epsilon * scale)
        unit = np.maximum(unit, limits.subnormal)
        same = (one == other) & (np.signbit(one) == np.signbit(other))
        same |= np.isnan(one) & np.isnan(other)
        distance = np.where(same, 0.0, np.abs(one - other) / unit)
        near = np.isfinite(one) & np.isfinite(other) & (distance <= roundings)
        near &= (one != 0) | (other != 0)
    wrong = ~(same | near)
    if wrong.any():
        return _first(wrong), 0.0
    return None, float(distance.max(initial=0.0))


def _first(wrong: Array) -> tuple[int, ...]:
    return tuple(int(each) for each in np.argwhere(wrong)[0])


def _scale(arrays: Sequence[Array], results: Sequence[Array]) -> float:
    """The largest finite magnitude that went in or came out."""
    found = 0.0
    for array in (*arrays, *results):
        with np.errstate(all="ignore"):
            values = np.abs(array.astype(np.float64))
        found = max(found, float(values[np.isfinite(values)].max(initial=0.0)))
    return found


def _roundings(ops: Sequence[TensorOp]) -> int:
    """Units in the last place that ops may differ by from exact arithmetic, in all."""
    count = 0
    for op in ops:
        name = op.declaration.name
        if op.declaration.family == "movement" or name in _EXACT:
            continue
        count += 1 if name in _ROUNDED_ONCE else 2
    return count


def _shrunk(
    pattern: Pattern, specs: Sequence[TensorSpec], context: PassContext
) -> tuple[TensorSpec, ...] | None:
    """Small sizes of the same form that both sides take."""
    large = sorted({size for spec in specs for size in spec.shape if size > 4})
    for first, step in ((5, 1), (12, 12)):
        sizes = {size: min(size, first + step * n) for n, size in enumerate(large)}
        if len(set(sizes.values())) < len(sizes):
            continue
        small = tuple(
            TensorSpec(tuple(sizes.get(size, size) for size in spec.shape), spec.dtype)
            for spec in specs
        )
        try:
            match = specialize(pattern, pattern.declaration.match, small, context)
            rewrite = specialize(pattern, pattern.declaration.rewrite, small, context)
        except CompileError:
            continue
        if match.results == rewrite.results:
            return small
    return None


def _inputs(
    pattern: Pattern,
    arrays: Sequence[Array],
    result: Array,
    index: tuple[int, ...],
    elementwise: bool,
) -> tuple[str, ...]:
    """What the free values were: one number where one decides, else the array."""
    shown: list[str] = []
    for name, array in zip(pattern.free_names, arrays, strict=True):
        if elementwise:
            own = index[len(index) - array.ndim :]
            place = tuple(0 if size == 1 else at for at, size in zip(own, array.shape, strict=True))
            shown.append(f"%{name} = {_number(array[place])}")
        elif array.size and _uniform(array):
            every = " in every element" if array.size > 1 else ""
            shown.append(f"%{name} = {_number(array.reshape(-1)[0])}{every}")
        else:
            text = np.array2string(
                array.astype(np.float64) if array.dtype.kind not in "iub" else array,
                separator=", ",
                threshold=12,
                edgeitems=2,
                max_line_width=10_000,
            )
            shown.append(f"%{name} = {' '.join(text.split())}")
    return tuple(shown)


def _uniform(array: Array) -> bool:
    flat = array.reshape(-1)
    return bool(np.all((flat == flat[0]) | ((flat != flat) & (flat[0] != flat[0]))))


def _number(value: Array) -> str:
    """As few digits as tell it from its neighbours."""
    if value.dtype.kind in "iub":
        return str(value).lower()
    return str(value if value.dtype.itemsize == 8 else np.float32(value))


def _error(pattern: Pattern, wrong: _Difference) -> CompileError:
    found = wrong.found
    op = pattern.results[0].owner
    name = op.declaration.name if isinstance(op, TensorOp) else "the match"
    made = wrong.rewrite.ops[-1].declaration.name if wrong.rewrite.ops else "the rewrite"
    at = f" at {list(found.index)}" if found.index else ""
    return pattern.fault(
        f"its rewrite computes something else: with {', '.join(found.inputs)} its match "
        f"({name}) gives {found.expected}{at}, its rewrite ({made}) {found.got}",
        f"tried through the reference on {listed(pattern, wrong.specs)}; write a rewrite that "
        "gives the same for every input, or remove the pattern",
    )
