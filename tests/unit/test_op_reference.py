"""docs/ops.md is current, says what each op takes, and its examples run on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import wia_compiler as wia
from op_tool import TOOL
from wia_compiler.dialects.wia.aliases import ALIASES
from wia_compiler.dialects.wia.declarations import DECLARATIONS


def test_the_page_is_current() -> None:
    assert TOOL.PAGE.read_text("utf-8") == TOOL.page(), "run: python tools/op_reference.py"


def test_every_op_says_what_it_takes() -> None:
    for row in DECLARATIONS.values():
        assert row.doc.endswith(".") and row.rule and row.example is not None, row.name
        assert not row.rule.endswith("."), row.name


def test_aliases_lead_to_ops_and_hide_none() -> None:
    assert set(ALIASES.values()) <= set(DECLARATIONS)
    assert not set(ALIASES) & set(DECLARATIONS)


@pytest.mark.parametrize("name", DECLARATIONS)
def test_example_runs_on_the_cpu(name: str) -> None:
    example = DECLARATIONS[name].example
    assert example is not None
    kernel = wia.compile(TOOL.kernel_text(example))["example"]
    arrays = [TOOL.array_of(value) for _, value in example.inputs]
    expected, found = np.asarray(wia.reference(kernel, *arrays)), np.asarray(kernel(*arrays))
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    wide = [each.astype(np.float64) for each in (found, expected)]
    np.testing.assert_allclose(*wide, rtol=1e-6, atol=1e-6)


def test_headings_are_linked_from_the_list_of_their_family() -> None:
    text = TOOL.PAGE.read_text("utf-8")
    for row in DECLARATIONS.values():
        assert f"(#{TOOL.anchor(row)})" in text
        assert text.count(f"\n### `{row.name}(") == 1
