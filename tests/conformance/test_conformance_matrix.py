"""The conformance matrix: every op on every dtype, against the truth, on every executor."""

from __future__ import annotations

import pytest
from conformance.matrix.row import CONDITIONS
from conformance.matrix.run import ROWS, Group, covered_pairs, groups, run_case
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.dialects.wia.ops import DECLARATIONS

_CASES = [
    pytest.param(group, dtype, id=f"{group}-{dtype}")
    for group in groups()
    for dtype in group.dtypes
]


@pytest.mark.parametrize(("group", "dtype"), _CASES)
def test_ops_agree_everywhere(group: Group, dtype: str) -> None:
    for condition in group.conditions(dtype):
        run_case(group, dtype, condition)


def test_every_op_has_a_row() -> None:
    missing = [name for name in DECLARATIONS if name not in {row.op for row in ROWS}]
    lines = [
        f'    Row("{name}", one, (Call("{name}({parameters})", truth),)),  # {row.family}'
        for name in missing
        for row in [DECLARATIONS[name]]
        for parameters in [", ".join(p.name for p in row.parameters)]
    ]
    assert not missing, "write these rows in tests/conformance/matrix/:\n" + "\n".join(lines)


def test_every_row_is_an_op() -> None:
    assert sorted({row.op for row in ROWS} - DECLARATIONS.keys()) == []


def test_every_pair_is_covered() -> None:
    by_dtype, by_condition, both = covered_pairs()
    for row in ROWS:
        for condition in CONDITIONS:
            assert (row.op, condition) in by_condition, f"{row.op} never meets {condition}"
    for dtype in DTYPES:
        for condition in CONDITIONS:
            assert (dtype, condition) in both, f"{dtype} never meets {condition}"
    assert {op for op, _ in by_dtype} == {row.op for row in ROWS}
