"""MLIR itself reads what every stage prints: the bindings of a wheel parse and verify it."""

from __future__ import annotations

import re
from typing import Any

import pytest
import wia_compiler as wia
from corpus import TARGETS, Sample, samples, snapshots
from iree.compiler import ir
from stage_modules import visit_stages
from stages_page import PLAIN, stages
from wia_compiler.base.record import Stage
from wia_compiler.dialects.text import parse_ir, print_ir
from xdsl.dialects.builtin import ModuleOp

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
        for text in (stage.text, stage.with_locations):
            read(text, custom_dialects=False)


_PRODUCT = "input A: tensor, input B: tensor, output C: tensor"
_ATTENTION = "input Q: tensor, input K: tensor, input V: tensor, output O: tensor"
_MATRIX_UNITS: dict[str, tuple[str, str, tuple[tuple[int, ...], ...], str]] = {
    # Operands as they lie and turned, ragged; bytes, whose turned tiles are pairs; heads that a
    # schedule keeps whole, and in f32, where threads multiply what was copied asynchronously.
    "ragged": (_PRODUCT, "C = relu(A @ B);", ((200, 136), (136, 328)), "f16"),
    "turned": (_PRODUCT, "C = transpose(A) @ transpose(B);", ((128, 136), (256, 128)), "bf16"),
    "bytes": (_PRODUCT, "C = A @ B;", ((64, 96), (96, 48)), "i8"),
    "heads": (_ATTENTION, "O = attention(Q, K, V);", ((2, 127, 64),) * 3, "f16"),
    "simt heads": (_ATTENTION, "O = attention(Q, K, V);", ((2, 33, 64),) * 3, "f32"),
}
_KERNELS = {"gpu:sm_90": tuple(_MATRIX_UNITS), "gpu:sm_90a": ("ragged", "turned", "heads")}
_OPS = {
    "gpu:sm_90": {"nvgpu.mma.sync", "nvgpu.ldmatrix", "nvgpu.device_async_copy"},
    "gpu:sm_90a": {"nvgpu.tma.async.load", "nvgpu.mbarrier.try_wait.parity", "warpgroup.mma"},
}


def _lowered(text: str, arguments: list[Any], target: str) -> list[ModuleOp]:
    """The module of a kernel as plain stages have it."""
    found = list[ModuleOp]()

    def visit(stage: Stage, module: ModuleOp) -> None:
        if stage.name in PLAIN and stage.changed:
            found.append(module.clone())

    visit_stages(wia.compile(text)["k"], arguments, visit, target)
    assert found
    return found


@pytest.mark.parametrize("target", _OPS)
def test_kernels_for_matrix_units_are_mlir(target: str) -> None:
    """What nvgpu has words for is plain; only products of warpgroups are a dialect of ours."""
    found = set[str]()
    for name in _KERNELS[target]:
        parameters, body, shapes, dtype = _MATRIX_UNITS[name]
        text = f"kernel k({parameters}) {{ {body} }}"
        for module in _lowered(text, [wia.spec(shape, dtype) for shape in shapes], target):
            names = {op.name for op in module.walk()}
            has_own = any(each.startswith("warpgroup.") for each in names)
            located = print_ir(module, locations=True)
            assert print_ir(parse_ir(located)) == print_ir(module), name
            for written in (located, print_ir(module)):
                read(written, custom_dialects=has_own)
            found |= names
    assert _OPS[target] <= found
    assert not any(each.startswith("nvgpu.warpgroup") for each in found)


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


def test_ops_that_few_kernels_have_are_mlir() -> None:
    text = """
func.func @f(%x: f32, %tile: memref<64x32xf16, #gpu.address_space<workgroup>>, %i: index) {
  %bits = nvvm.convert.float.to.tf32 %x rnd = <rna>
  %0 = nvgpu.ldmatrix %tile[%i, %i] numTiles = 2 transpose = true {wia.line = 3 : i64}
    : memref<64x32xf16, #gpu.address_space<workgroup>> -> vector<2x2xf16>
  %1 = vector.extract_strided_slice %0 offsets = [1], sizes = [1], strides = [1] {wia.line = 3}
    : vector<2x2xf16> to vector<1x2xf16>
  %2 = nvgpu.device_async_create_group {}
  nvgpu.device_async_wait %2
  %3 = memref.alloca() : memref<4xf32, #gpu.address_space<private>>
  %4 = memref.alloca() : memref<4xf32, #gpu.address_space<global>>
  func.return
}"""
    module = parse_ir(text)
    module.verify()
    read(print_ir(module), custom_dialects=False)


def test_mlir_refuses_what_is_wrong() -> None:
    text = "func.func @f(%a: f32) -> f32 { %0 = arith.addi %a, %a : f32 func.return %0 : f32 }"
    with pytest.raises(pytest.fail.Exception, match=r"arith\.addi"):
        read(text, custom_dialects=False)
    with pytest.raises(pytest.fail.Exception, match="wia"):
        read('"wia.relu"() : () -> ()', custom_dialects=False)
