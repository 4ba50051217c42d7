"""MLIR itself reads what every stage prints: the bindings of a wheel parse and verify it."""

from __future__ import annotations

import re

import pytest
from corpus import TARGETS, Sample, samples, snapshots
from iree.compiler import ir
from stages_page import PLAIN, stages
from wia_compiler.dialects.text import parse_ir, print_ir

_EACH = pytest.mark.parametrize("sample", samples(), ids=str)
_TARGET = pytest.mark.parametrize("target", TARGETS)


def read(text: str, *, custom_dialects: bool) -> None:
    """Parse and verify a text with MLIR; its message and the line where it refuses."""
    context = ir.Context()
    context.allow_unregistered_dialects = custom_dialects
    try:
        module = ir.Module.parse(text, context)
        assert module.operation.verify()
    except ir.MLIRError as error:
        place = re.search(r'"-":(\d+)', str(error))
        line = text.split("\n")[int(place[1]) - 1] if place else ""
        pytest.fail(f"{error}\n    {line}", pytrace=False)


@_TARGET
@_EACH
def test_plain_stages_are_mlir(sample: Sample, target: str) -> None:
    plain = [stage for stage in snapshots(sample, target) if stage.name in PLAIN]
    assert plain
    for stage in plain:
        if "nvgpu." in stage.text:
            # Not plain: nvgpu wants memory space 3, ours is called "shared" (docs/stages.md).
            assert print_ir(parse_ir(stage.text)) == stage.text
        else:
            read(stage.text, custom_dialects=False)


@_TARGET
@_EACH
def test_stages_of_own_dialects_are_mlir_in_generic_form(sample: Sample, target: str) -> None:
    for stage in snapshots(sample, target):
        assert stage.name in stages()
        if stage.name not in PLAIN and not _PASSES_A_NUMBER.search(stage.generic):
            read(stage.generic, custom_dialects=True)
        elif stage.name not in PLAIN:
            assert stage.name in ("import", "inline"), stage.name


# Before shapes are known a branch may pass a number of the text to an argument that is a tensor.
_PASSES_A_NUMBER = re.compile(r'"cf\.(cond_)?br"\(.*!wia\.literal')


def test_mlir_refuses_what_is_wrong() -> None:
    text = "func.func @f(%a: f32) -> f32 { %0 = arith.addi %a, %a : f32 func.return %0 : f32 }"
    with pytest.raises(pytest.fail.Exception, match=r"arith\.addi"):
        read(text, custom_dialects=False)
    with pytest.raises(pytest.fail.Exception, match="wia"):
        read('"wia.relu"() : () -> ()', custom_dialects=False)
