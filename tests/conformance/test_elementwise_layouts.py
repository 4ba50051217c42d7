"""Every elementwise function of floats: the bits of a dense row, however the values lie."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import wia_compiler as wia
from conformance.matrix.compare import check_same
from conformance.matrix.elementwise import ELEMENTWISE_ROWS
from conformance.matrix.functions import FUNCTION_ROWS
from conformance.matrix.row import Row
from conformance.matrix.run import Member, operand_dtypes, refusal, text_of
from executors import listed
from special_values import specials
from wia_compiler.base.dtypes import DTYPES

Array = np.ndarray[Any, Any]
SIZE = (18, 25)
COUNT = SIZE[0] * SIZE[1]
_TOGETHER = 10
_SHAPES = ("one", "two", "pair", "three")
_SCALARS = ("sin", "cos", "tan", "mod", "floordiv")
"""Functions that some dtype computes without vectors; beside others they would take theirs away."""


@functools.cache
def groups() -> tuple[tuple[Row, tuple[Member, ...]], ...]:
    """Calls of equal operands, some of them to a kernel."""
    found: dict[object, list[tuple[Row, Member]]] = {}
    for row in (*ELEMENTWISE_ROWS, *FUNCTION_ROWS):
        if row.shapes.__name__ in _SHAPES and not row.op.startswith("bitwise"):
            key = len(row.operands), tuple(row.dtypes.items()), row.op in _SCALARS
            found.setdefault(key, []).extend((row, Member(row.op, call)) for call in row.calls)
    made = list[tuple[Row, tuple[Member, ...]]]()
    for calls in found.values():
        for start in range(0, len(calls), _TOGETHER):
            chunk = calls[start : start + _TOGETHER]
            made.append((chunk[0][0], tuple(member for _, member in chunk)))
    return tuple(made)


def values(dtype: str, seed: int) -> Array:
    """Special values, subnormals, every magnitude, and numbers near 1; not in order."""
    row, random = DTYPES[dtype], np.random.default_rng(seed)
    if not row.is_float:
        return random.integers(0, 2, COUNT).astype(row.numpy)
    info = ml_dtypes.finfo(row.numpy)
    reach = float(np.log2(float(info.max)))
    with np.errstate(all="ignore"):
        wide = random.normal(size=COUNT) * np.exp2(random.uniform(-reach, reach, COUNT))
        wide[: COUNT // 2] = random.normal(scale=3, size=COUNT // 2)
        steps = random.integers(-(2 ** int(info.nmant)), 2 ** int(info.nmant), 40)
        wide[:40] = steps * float(info.smallest_subnormal)
        made = wide.astype(row.numpy)
    some = specials(dtype)
    made[40 : 40 + len(some)] = some
    return random.permutation(made)


def apart(row: Array, step: int) -> Array:
    """The same row with its elements ``step`` apart."""
    wide = np.zeros(step * len(row), row.dtype)
    wide[::step] = row
    return wide[::step]


def placements(rows: Sequence[Array]) -> Iterator[tuple[str, slice, list[Array]]]:
    """Operands that hold some of the elements of ``rows``, lying in memory in other ways."""
    whole = slice(0, COUNT)
    for step in (2, 3):
        yield f"{step} apart", whole, [apart(each, step) for each in rows]
    tables = [each.reshape(SIZE) for each in rows]
    yield "transposed", whole, [np.asfortranarray(each) for each in tables]
    if len(rows) > 1:  # no axis is dense in all
        yield "mixed", whole, [np.asfortranarray(tables[0]), *tables[1:]]
    for first in range(0, COUNT, 40):
        yield "5 elements", slice(first, first + 5), [each[first : first + 5] for each in rows]
    for first in range(0, COUNT, 9):
        yield "1 element", slice(first, first + 1), [each[first : first + 1] for each in rows]


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize("number", range(len(groups())), ids=lambda n: groups()[n][1][0].op)
def test_bits_do_not_depend_on_the_layout(number: int, dtype: str) -> None:
    row, members = groups()[number]
    members = [each for each in members if refusal(row, each, dtype, "17") is None]
    kernel = wia.compile(text_of(row, members, "17"))["k"]
    dtypes = operand_dtypes(row, dtype)
    rows = [values(each, zlib.crc32(f"{n} {each}".encode())) for n, each in enumerate(dtypes)]
    expected = listed(kernel(*rows))
    for name, part, operands in placements(rows):
        found = listed(kernel(*operands))
        for member, one, other in zip(members, found, expected, strict=True):
            what = f"{member.call.text} of {dtype}, {name}"
            check_same(one.reshape(-1), other[part], what)
