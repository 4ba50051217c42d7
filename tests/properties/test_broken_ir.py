"""Whatever is done to a stage's text, reading and verifying it ends in an IR or in our errors."""

from __future__ import annotations

import functools

import pytest
from corpus import TARGETS, samples, snapshots
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wia_compiler.dialects.text import parse_ir, print_ir
from wia_compiler.passes.verifier import verify_high_level
from wia_compiler.passes.verify_tile import verify_tile
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import DiagnosticException, ParseError, VerifyException

BOUNDED = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
PIECES = (
    *(
        "",
        "0",
        "-1",
        "4",
        "f32",
        "i8",
        "tensor<4xf32>",
        "memref<4xf32>",
        "index",
        "%0",
        "%a",
        "(",
        ")",
    ),
    *(
        "{",
        "}",
        "<",
        ">",
        ",",
        ":",
        "->",
        "=",
        '"',
        "wia.add",
        "tile.for",
        "scf.yield",
        "func.return",
    ),
    *(
        "arith.constant",
        "true",
        "dense<0>",
        "@k",
        "^bb0",
        "loc(unknown)",
        "\n",
        "[",
        "]",
        "行",
        "\x00",
    ),
)


@functools.cache
def texts() -> tuple[tuple[str, str, str], ...]:
    """Name, level and text of stages of a few kernels, short ones."""
    found = [
        (stage.name, stage.level, stage.text)
        for sample in samples()[:14]
        for target in TARGETS
        for stage in snapshots(sample, target)
    ]
    return tuple(dict.fromkeys(each for each in found if len(each[2]) < 4000))


def read(text: str, stage: str = "import", level: str = "high") -> None:
    """Parse, verify and print; only the errors of those steps may come out."""
    try:
        module = parse_ir(text)
        module.verify()
        names = [op.sym_name.data for op in module.ops if isinstance(op, FuncOp)]
        if level == "high" and names:
            verify_high_level(module, names[0], stage)
        elif level == "mid":
            verify_tile(module)
        printed = print_ir(module)
    except (ParseError, VerifyException, DiagnosticException):
        return
    assert print_ir(parse_ir(printed)) == printed


@BOUNDED
@given(st.binary(max_size=200))
def test_random_bytes(data: bytes) -> None:
    read(data.decode("utf-8", "replace"))
    read(data.decode("latin-1"))


@BOUNDED
@given(
    st.data(),
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 8), st.sampled_from(PIECES)),
        min_size=1,
        max_size=4,
    ),
)
def test_mutated_stages(data: st.DataObject, edits: list[tuple[float, int, str]]) -> None:
    stage, level, text = data.draw(st.sampled_from(texts()))
    for place, length, piece in edits:
        at = int(place * len(text))
        text = text[:at] + piece + text[at + length :]
    read(text, stage, level)


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.9])
def test_stages_that_end_early(cut: float) -> None:
    for stage, level, text in texts():
        read(text[: int(cut * len(text))], stage, level)
