"""Runs the matrix: groups of calls with equal operands, compiled together and run everywhere."""

from __future__ import annotations

import functools
import itertools
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import wia_compiler as wia
from conformance.matrix.compare import check_close, check_same, truth_of
from conformance.matrix.contraction import CONTRACTION_ROWS
from conformance.matrix.elementwise import ELEMENTWISE_ROWS
from conformance.matrix.functions import FUNCTION_ROWS
from conformance.matrix.layers import LAYER_ROWS
from conformance.matrix.movement import MOVEMENT_ROWS
from conformance.matrix.normalization import NORMALIZATION_ROWS
from conformance.matrix.placement import PLACEMENT_ROWS
from conformance.matrix.reduction import REDUCTION_ROWS
from conformance.matrix.row import (
    CONDITIONS,
    MOST_TOGETHER,
    VALUES,
    Array,
    Call,
    Row,
    assigned,
)
from conformance.matrix.scans import SCAN_ROWS
from conformance.matrix.values import MAKERS, place
from conformance.matrix.windows import WINDOW_ROWS
from stage_modules import arguments_of, module_at
from wia_compiler.base.dtypes import DTYPES, from_numpy
from wia_compiler.base.errors import CompileError
from wia_compiler.base.source import Source
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.pipeline import high_passes
from wia_compiler.reference.tile import run_tile_module

ROWS: tuple[Row, ...] = (
    *ELEMENTWISE_ROWS,
    *FUNCTION_ROWS,
    *REDUCTION_ROWS,
    *SCAN_ROWS,
    *WINDOW_ROWS,
    *NORMALIZATION_ROWS,
    *CONTRACTION_ROWS,
    *LAYER_ROWS,
    *MOVEMENT_ROWS,
    *PLACEMENT_ROWS,
)
_FACTS = TargetFacts("conformance", 64, 0.1, 100_000)


@dataclass(frozen=True)
class Member:
    """One call of one op in a group."""

    op: str
    call: Call


@dataclass(frozen=True)
class Group:
    """Calls that take the same operands in the same dtypes, and so may share a kernel."""

    number: int
    row: Row
    members: tuple[Member, ...]
    dtypes: tuple[str, ...]

    def __str__(self) -> str:
        names = list(dict.fromkeys(member.op for member in self.members))
        return f"{self.number}-{names[0]}" + (f"-{names[-1]}" if len(names) > 1 else "")

    def conditions(self, dtype: str) -> tuple[str, ...]:
        """The shape conditions that a dtype is tried under."""
        return assigned(self.dtypes, dtype, self.number)


@dataclass(frozen=True)
class Finding:
    """What one case found: the largest error in ulp of any executor (0 where all are exact)."""

    op: str
    dtype: str
    condition: str
    ulps: float
    exact: bool


def operand_dtypes(row: Row, dtype: str) -> tuple[str, ...]:
    """The dtype of each operand when the case is about ``dtype``."""
    return tuple(row.dtypes.get(name, dtype) for name in row.operands)


def text_of(row: Row, members: Sequence[Member], condition: str) -> str:
    """One kernel ``k`` that makes every call."""
    inputs = "".join(f"input {name}: tensor, " for name in row.operands)
    outputs = ", ".join(f"output o{number}: tensor" for number in range(len(members)))
    body = " ".join(f"o{n} = {each.call.written(condition)};" for n, each in enumerate(members))
    return f"kernel k({inputs}{outputs}) {{ {body} }}"


@functools.cache
def _single(row_text: str) -> wia.Kernel:
    return wia.compile(row_text)["k"]


def refusal(row: Row, member: Member, dtype: str, condition: str) -> CompileError | None:
    """Why the op's rule does not take the operands of a case; ``None`` where it does."""
    kernel = _single(text_of(row, [member], condition))
    pairs = zip(row.shapes(condition), operand_dtypes(row, dtype), strict=True)
    specs = [wia.spec(shape, name) for shape, name in pairs]
    arguments = arguments_of(kernel, specs)
    module = kernel.unit.program.module.clone()
    source = Source(kernel.source)
    try:
        for step in high_passes(arguments):
            step.run(module, PassContext(source, "k", _FACTS))
            if step.name == "infer-shapes":
                break
    except CompileError as error:
        return error
    return None


def row_dtypes(row: Row, member: Member) -> tuple[str, ...]:
    """The dtypes for which the op is defined, at an ordinary size."""
    names = row.only or tuple(DTYPES)
    return tuple(name for name in names if refusal(row, member, name, "17") is None)


def row_dtypes_of_op(op: str) -> set[str]:
    """The dtypes for which some call of an op is defined."""
    return {
        name
        for row in ROWS
        if row.op == op
        for call in row.calls
        for name in row_dtypes(row, Member(op, call))
    }


@functools.cache
def groups() -> tuple[Group, ...]:
    """Every call of every row, those of equal operands and dtypes together."""
    gathered: dict[object, list[tuple[Row, Member]]] = {}
    for row in ROWS:
        for call in row.calls:
            member = Member(row.op, call)
            key = (row.group, row_dtypes(row, member))
            gathered.setdefault(key, []).append((row, member))
    made = list[Group]()
    for (_, dtypes), listed in gathered.items():  # pyright: ignore
        for chunk in _chunks(listed):
            members = tuple(member for _, member in chunk)
            made.append(Group(len(made), chunk[0][0], members, dtypes))
    return tuple(made)


def _chunks(listed: list[tuple[Row, Member]]) -> Iterator[list[tuple[Row, Member]]]:
    for start in range(0, len(listed), MOST_TOGETHER):
        yield listed[start : start + MOST_TOGETHER]


def operands_for(row: Row, dtype: str, condition: str, values: str) -> list[Array]:
    """The operands of one case; the same at every run."""
    made = list[Array]()
    for name, shape, each in zip(
        row.operands, row.shapes(condition), operand_dtypes(row, dtype), strict=True
    ):
        seed = zlib.crc32(f"{row.op} {name} {each} {condition} {values}".encode())
        maker = MAKERS[row.makers.get(name, "any")]
        made.append(place(maker(np.random.default_rng(seed), each, shape, values), condition))
    return made


def value_classes(row: Row, dtype: str) -> tuple[str, ...]:
    """The classes of values that some operand can take in a dtype."""
    floats = any(DTYPES[each].is_float for each in operand_dtypes(row, dtype))
    return VALUES if floats else VALUES[:1]


def run_case(group: Group, dtype: str, condition: str) -> list[Finding]:
    """Run one kernel on every class of values, everywhere; fail where results are out of bounds."""
    row = group.row
    members = [m for m in group.members if refusal(row, m, dtype, condition) is None]
    if not members:
        return []
    kernel = wia.compile(text_of(row, members, condition))["k"]
    worst = dict.fromkeys(members, 0.0)
    nests = module_at(kernel, operands_for(row, dtype, condition, VALUES[0]), "loops")
    for values in value_classes(row, dtype):
        operands = operands_for(row, dtype, condition, values)
        expected = _listed(wia.reference(kernel, *operands))
        folded = [np.zeros_like(each) for each in expected]
        run_tile_module(nests, operands, folded)
        results = {"cpu": _listed(kernel(*operands)), "interpreter": folded}
        for number, member in enumerate(members):
            what = f"{member.call.written(condition)} on {dtype}, {condition}, {values}"
            found = {name: result[number] for name, result in results.items()}
            error = compare(member.call, operands, expected[number], found, what)
            worst[member] = max(worst[member], error)
    return [
        Finding(member.op, dtype, condition, error, member.call.bound.is_exact)
        for member, error in worst.items()
    ]


def compare(
    call: Call, operands: Sequence[Array], reference: Array, found: dict[str, Array], what: str
) -> float:
    """Hold the reference to the truth and every executor to both; the largest error in ulp."""
    dtype = from_numpy(reference.dtype)
    assert dtype is not None, f"{what}: the reference gives {reference.dtype}"
    truth = truth_of(call, operands, dtype)
    if truth is not None and not dtype.is_float:
        check_same(reference, truth, f"reference: {what}")
    if call.bound.is_exact or not dtype.is_float:
        for name, result in found.items():
            check_same(result, reference, f"{name}: {what}")
        if truth is None or not dtype.is_float:
            return 0.0
        return check_close(reference, truth, call.bound, operands, f"reference: {what}")
    wanted = reference.astype(np.float64).astype(np.longdouble) if truth is None else truth
    errors = list[float]()
    for name, result in {"reference": reference, **found}.items():
        assert result.dtype == reference.dtype, f"{name}: {what}: {result.dtype}"
        errors.append(check_close(result, wanted, call.bound, operands, f"{name}: {what}"))
    return max(errors)


def _listed(results: Array | tuple[Array, ...]) -> list[Array]:
    return list(results) if isinstance(results, tuple) else [results]


def covered_pairs() -> tuple[set[tuple[str, str]], set[tuple[str, str]], set[tuple[str, str]]]:
    """The pairs op × dtype, op × condition and dtype × condition that the matrix runs."""
    by_dtype, by_condition, both = (
        set[tuple[str, str]](),
        set[tuple[str, str]](),
        set[tuple[str, str]](),
    )
    for group in groups():
        for dtype, member in itertools.product(group.dtypes, group.members):
            by_dtype.add((member.op, dtype))
            by_condition.update((member.op, each) for each in group.conditions(dtype))
            both.update((dtype, each) for each in group.conditions(dtype))
    assert len(CONDITIONS) == len(set(CONDITIONS))
    return by_dtype, by_condition, both
